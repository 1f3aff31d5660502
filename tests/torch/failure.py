#!/usr/bin/env python3
"""What happens when a rank dies, does not call, or forks: the others raise, by name and in time, and nothing hangs.

  failure.py [--untimed]    what is promised about time is of whole seconds, and looked at on a quiet machine alone
"""

import datetime
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from common import dist, mp, start, torch


TIMED = "--untimed" not in sys.argv


def run(body, size, **named):
    """Results of body(rank, size, report) of forked ranks that may die; `report(value)` sends one."""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        context, results = mp.get_context("fork"), mp.get_context("fork").SimpleQueue()

        def rank_main(rank):
            start(rank, size, f"{folder}/store", timeout=named.get("timeout", 60))
            body(rank, size, lambda value: results.put((rank, value)))
            os._exit(0)

        ranks = [context.Process(target=rank_main, args=(r,)) for r in range(size)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(60)
            assert not one.is_alive(), "a rank hangs"
        found = {}
        while not results.empty():
            rank, value = results.get()
            found[rank] = value
        return found


def killed(rank, size, report):
    """Rank 2 is killed amid a loop of all_reduce."""
    tensor, began = torch.ones(1000), time.monotonic()
    while rank != 2 or time.monotonic() < began + 0.3:
        try:
            dist.all_reduce(tensor)
        except dist.DistBackendError as error:
            return report((time.time(), str(error)))
    report((time.time(), ""))
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed():
    found = run(killed, 4)
    assert sorted(found) == [0, 1, 2, 3], f"ranks that reported: {sorted(found)}"
    end = found.pop(2)[0]
    for rank, (when, error) in found.items():
        assert re.search(r"rank 2\b", error), f"rank {rank} does not name the dead one: {error}"
        assert "closed" in error, error
    worst = max(when for when, _ in found.values()) - end
    assert worst < 1 or not TIMED, f"the last one knew after {worst:.2f} s"
    return f"3 of 3 survivors named rank 2, the last after {worst * 1000:.0f} ms"


def absent(rank, size, report):
    """Rank 1 does not call."""
    if rank == 1:
        return time.sleep(4)
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(3))
    except dist.DistBackendError as error:
        report((time.monotonic() - began, str(error)))


def test_absent():
    limit = 2
    took, error = run(absent, 2, timeout=limit)[0]
    assert re.search(r" Timed out waiting 2000ms for all_reduce", error), error
    assert re.search(r"rank 1\b", error), f"the error does not name who is missing: {error}"
    # The group's limit takes the place of the environment's, so the text names what sets it.
    assert "init_process_group(timeout=...)" in error and "TUTTI_TIMEOUT" not in error, error
    assert took > limit - 0.1 and (abs(took - limit) < 0.1 * limit or not TIMED), f"after {took:.2f} s"
    return f"after {took:.2f} s of {limit} s, naming rank 1"


def aborts(rank, size, report):
    """abort() of another thread ends a wait."""
    if rank == 1:
        return time.sleep(3)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    threading.Timer(0.5, backend.abort).start()
    began = time.monotonic()
    try:
        dist.recv(torch.ones(3), 1)
    except dist.DistBackendError as error:
        report((time.monotonic() - began, str(error)))


def test_abort():
    took, error = run(aborts, 2)[0]
    assert (0.4 < took < 2 or not TIMED) and "abort" in error, (took, error)
    return f"ended {took - 0.5:.2f} s after abort()"


def in_callbacks(rank, size, report):
    """Rank 1 makes no call in its callback: the other's time-out ends the group, for calls outside of callbacks too."""
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    if rank == 1:
        future.then(lambda f: None).wait()
        return time.sleep(6)
    texts = []
    for call in (lambda: future.then(lambda f: dist.all_reduce(torch.ones(3))).wait(), lambda: dist.all_reduce(torch.ones(3))):
        try:
            call()
        except RuntimeError as error:
            texts.append(str(error))
    report(texts)


def test_callback():
    texts = run(in_callbacks, 2, timeout=2)[0]
    assert len(texts) == 2 and "Timed out waiting 2000ms for all_reduce" in texts[0], texts
    return "a time-out in a callback ends the group"


def waits(rank, size):
    """Calls that never end, as rank 1 makes none."""
    one, backend = torch.ones(3), dist.group.WORLD._get_backend(torch.device("cpu"))
    yield "irecv", lambda: dist.irecv(one, 1).wait()
    yield "all_reduce", lambda: dist.all_reduce(one)
    yield "future", lambda: dist.all_reduce(one, async_op=True).get_future().wait()
    yield "callback", lambda: dist.all_reduce(one, async_op=True).get_future().then(lambda f: f).wait()
    yield "recv", lambda: dist.recv(one, 1)
    yield "monitored_barrier", lambda: backend.monitored_barrier(datetime.timedelta(seconds=50), True)


def waiting():
    """Rank 0 of two interrupts itself in each of the calls, and leaves by the last one."""
    rank, store = int(sys.argv[2]), sys.argv[3]
    start(rank, 2, store)
    if rank == 1:
        return sys.stdin.read()
    for name, call in waits(rank, 2):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            call()
        except KeyboardInterrupt:
            print(name, flush=True)
            if name == "monitored_barrier":
                raise


def test_interrupt():
    """Ctrl-C ends what waits, with KeyboardInterrupt, and the process leaves."""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        ranks = [subprocess.Popen([sys.executable, "-B", __file__, "--waits", str(r), f"{folder}/store"], text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE) for r in range(2)]
        try:
            out, err = ranks[0].communicate(timeout=100)
        finally:
            for one in ranks:
                one.kill()
            ranks[1].communicate()
    names = out.split()
    assert names == [name for name in ("irecv", "all_reduce", "future", "callback", "recv", "monitored_barrier")] and err.rstrip().endswith("KeyboardInterrupt"), out + err
    assert ranks[0].returncode == -signal.SIGINT, ranks[0].returncode
    return f"ended {', '.join(names)} with KeyboardInterrupt"


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((8,), float(index))


def loads():
    """One rank of DDP whose data come from two forked workers."""
    rank, store = int(sys.argv[2]), sys.argv[3]
    start(rank, 2, store)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork")
    for _ in range(3):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    dist.destroy_process_group()


def test_workers():
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, "--loads", str(r), f"{folder}/store"], stderr=subprocess.PIPE,
                                  text=True) for r in range(2)]
        texts = [one.communicate(timeout=120)[1] for one in ranks]
    assert [one.returncode for one in ranks] == [0, 0] and texts == ["", ""], texts
    return "3 epochs with 2 forked workers per rank, nothing on stderr"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--loads"]:
        loads()
    elif sys.argv[1:2] == ["--waits"]:
        waiting()
    else:
        for test in (test_killed, test_absent, test_abort, test_callback, test_interrupt, test_workers):
            print(f"failure: {test.__name__[5:]}: {test()}")
