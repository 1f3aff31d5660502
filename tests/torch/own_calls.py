#!/usr/bin/env python3
"""tutti's own calls on the communicators of process groups, between those of torch.distributed. Wants the package tutti."""

import sys

from common import dist, on_ranks, torch

try:
    import tutti  # noqa: F401: without the compiled module there are no calls
    from tutti import Communicator
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def refusal(*group):
    try:
        tutti.torch.communicator(*group)
    except ValueError as error:
        return str(error)
    raise AssertionError("no ValueError")


def own_calls(rank, size):
    world = tutti.torch.communicator()
    assert isinstance(world, Communicator) and (world.rank, world.size) == (rank, size)
    found = []
    for turn in range(10):
        ours = world.allreduce(torch.full((1000,), float(rank + turn)), async_op=True)
        torchs = torch.full((7,), float(rank))
        work = dist.all_reduce(torchs, async_op=True)
        found.append((ours.wait()[999].item(), (work.wait(), torchs[6].item())[1], world.allreduce(rank, "max")))
    ranks = sum(range(size))
    assert found == [(ranks + turn * size, ranks, size - 1) for turn in range(10)], found

    evens = dist.new_group(range(0, size, 2))
    if rank % 2 == 0:
        own = tutti.torch.communicator(evens)
        assert (own.rank, own.size) == (rank // 2, (size + 1) // 2)
        assert own.allgather_object(rank) == list(range(0, size, 2))
    else:
        assert "not in the process group" in refusal(evens)

    gloo = dist.new_group(backend="gloo")
    assert "backend is gloo" in refusal(gloo)

    own = world.dup()  # an order of its own: rank 0 makes its calls the other way round
    if rank == 0:
        ours, theirs = own.allreduce(torch.ones(5), async_op=True), dist.barrier(async_op=True)
    else:
        theirs, ours = dist.barrier(async_op=True), own.allreduce(torch.ones(5), async_op=True)
    theirs.wait()
    assert ours.wait().tolist() == [size] * 5


def outlives(rank, size):
    """The communicator stays when its group is destroyed."""
    kept = tutti.torch.communicator()
    dist.destroy_process_group()
    found = kept.allreduce(1)
    assert "no default process group" in refusal()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # for the harness to destroy
    return found


def main():
    for size in 2, 3:
        on_ranks(size, own_calls)
        assert on_ranks(size, outlives) == [size] * size
    print("own calls: right at 2 and 3 ranks")


main()
