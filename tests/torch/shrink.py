#!/usr/bin/env python3
"""A group goes on without dead ranks: torch.distributed.shrink_group, and tutti.torch.shrink, which finds the dead by itself."""

import os
import signal
import sys
import tempfile
import time

from common import dist, mp, start, torch

LIMIT = 60


def die(group=None):
    """Ends this rank after its first call of those that the others make in until_lost()."""
    dist.all_reduce(torch.ones(1000), group=group)
    os.kill(os.getpid(), signal.SIGKILL)


def until_lost(group=None):
    """Calls until the group fails; the error's text."""
    try:
        while True:
            dist.all_reduce(torch.ones(1000), group=group)
    except dist.DistBackendError as error:
        return str(error)


def use(size, group=None):
    """Some calls on the group; the ranks of it are numbered from 0 to size - 1."""
    rank = dist.get_rank(group)
    assert dist.get_world_size(group) == size, dist.get_world_size(group)
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor, group=group)
    assert (tensor == size * (size + 1) / 2).all(), tensor
    everyone = [None] * size
    dist.all_gather_object(everyone, rank, group=group)
    assert everyone == list(range(size)), everyone
    dist.barrier(group)
    assert dist.get_backend(group) == "tutti"
    return rank


def trains(size):
    torch.manual_seed(7)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    model(torch.full((4, 8), float(dist.get_rank()))).sum().backward()
    gradient = model.module.weight.grad[0, 0].item()
    assert gradient == 4 * (size - 1) / 2, gradient


def default_group(rank, size, victim):
    """One of the ranks is killed, and the others go on by torch's own function."""
    if rank == victim:
        return die()
    until_lost()
    made = dist.shrink_group([victim])
    assert made is dist.group.WORLD
    assert use(size - 1) == rank - (rank > victim)
    trains(size - 1)
    pair = dist.new_group([0, 1], group_desc="pair")
    use(2, pair)
    dist.destroy_process_group()


def found_out(rank, size, _):
    """Ranks die one after the other, and nobody says who."""
    import tutti.torch
    group, number = dist.group.WORLD, rank
    assert tutti.torch.shrink() is group
    for victim in (2, 0):
        if number == victim:
            return die()
        until_lost()
        group = tutti.torch.shrink(pg_options=tutti.torch.Options(algorithm="planned") if victim == 2 else None)
        size, number = size - 1, number - (number > victim)
        assert group is dist.group.WORLD and use(size) == number
        assert {device.type for device in group._device_types} == {"cpu", "cuda"}
        assert group._get_backend(torch.device("cuda")).options.algorithm == "planned"
        assert tutti.torch.communicator().allreduce(1) == size
    dist.destroy_process_group()


def subgroup(rank, size, _):
    """A group of some ranks is shrunk; global ranks keep their numbers."""
    import tutti.torch
    group = dist.new_group([0, 1, 3])
    if rank == 1:
        return die(group)
    if rank == 2:
        return
    until_lost(group)
    made = tutti.torch.shrink(group)
    assert use(2, made) == (rank > 0)
    assert dist.get_process_group_ranks(made) == [0, 3]
    tensor = torch.full((3,), float(rank))
    dist.broadcast(tensor, src=3, group=made)
    assert (tensor == 3).all()


def without_a_live_rank(rank, size, folder):
    """Rank 1 lives and takes no part; a receive from it is ended by SHRINK_ABORT."""
    if rank == 1:
        while len([name for name in os.listdir(folder) if name.startswith("done")]) < size - 1:
            time.sleep(0.05)
        return
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    waiting = dist.irecv(torch.ones(3), 1)
    flags = torch.distributed.distributed_c10d.SHRINK_ABORT
    new = dist.shrink_group([1], shrink_flags=flags)
    try:
        waiting.wait()
        raise AssertionError("the receive has come")
    except dist.DistBackendError as error:
        assert "SHRINK_ABORT" in str(error), error
    assert backend is not new._get_backend(torch.device("cpu")) and use(size - 1) == rank // 2
    open(f"{folder}/done{rank}", "w").close()
    dist.destroy_process_group()


def not_named(rank, size, _):
    """A dead rank that the caller does not name is excluded, too."""
    if rank in (0, 3):
        os.kill(os.getpid(), signal.SIGKILL)
    until_lost()
    made = dist.shrink_group([3])
    assert use(2) == rank - 1 and made.size() == 2


def refused(rank, size, _):
    """Wrong arguments: one line, and the group works on."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    other = 1 - rank
    for call, says in ((lambda: backend.shrink([rank]), f"this rank, {rank}, is to be excluded"),
                       (lambda: backend.shrink([2]), "2 is not a rank of this group of 2"),
                       (lambda: backend.shrink([-1]), "-1 is not a rank"), (lambda: backend.shrink([other], 2), "shrink_flags is 2; give"),
                       (lambda: backend.shrink([other], 0, dist.ProcessGroupGloo._Options()), "must be a tutti.torch.Options, not one of gloo")):
        try:
            call()
        except RuntimeError as error:
            assert says in str(error).splitlines()[0], error
        else:
            raise AssertionError(f"not refused: {says}")
    import tutti.torch
    try:
        tutti.torch.shrink(pg_options=3)
        raise AssertionError("a number was taken for options")
    except TypeError as error:
        assert str(error) == "pg_options of the backend tutti must be a tutti.torch.Options, not int", error
    use(size)


def run(body, size, victims, argument=None):
    """Runs body(rank, size, argument) on forked ranks, of which the victims are killed and no other."""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        context = mp.get_context("fork")

        def rank_main(rank):
            start(rank, size, f"{folder}/store", timeout=LIMIT)
            body(rank, size, folder if argument is None else argument)

        ranks = [context.Process(target=rank_main, args=(r,)) for r in range(size)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(2 * LIMIT)
        hang = [r for r, one in enumerate(ranks) if one.is_alive()]
        for one in ranks:
            one.kill()
            one.join()
    codes = [one.exitcode for one in ranks]
    wanted = [-signal.SIGKILL if r in victims else 0 for r in range(size)]
    assert not hang and codes == wanted, f"{body.__name__}: exit codes {codes}, still there: {hang}"
    print(f"shrink: {body.__name__}: {size} ranks, of which {victims or 'none'} were killed", flush=True)


if __name__ == "__main__":
    if not hasattr(dist, "shrink_group"):
        print("skipped: this torch has no shrink_group")
        sys.exit(77)
    for one in range(3):
        run(default_group, 3, [one], one)
    run(found_out, 3, [2, 0])
    run(subgroup, 4, [1])
    run(without_a_live_rank, 3, [])
    run(not_named, 4, [0, 3])
    run(refused, 2, [])
