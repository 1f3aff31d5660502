"""Calls that go on: waiting, callbacks, event loops, cancelling, interrupts; errors as exceptions; objects; meeting by a store."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import tutti

ALONE = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
ALONE |= {"OMP_NUM_THREADS": "1", "TUTTI_TUNING": "off"}


def test_wait(world):
    data = numpy.ones(3)
    work = world.allreduce(data, async_op=True)
    assert work.wait() is data and work.wait(0) is data and work.done() and work.result is data
    got = numpy.zeros(1)
    work = world.recv(got, world.rank, tag=77, async_op=True)
    assert not work.done()
    with pytest.raises(TimeoutError):
        work.wait(0.01)
    with pytest.raises(RuntimeError, match="not done yet"):
        work.result
    world.send(numpy.array([5.0]), world.rank, tag=77)
    assert work.wait()[0] == 5


def test_cancel(world):
    work = world.recv(numpy.zeros(1), world.rank, tag=78, async_op=True)
    assert work.cancel()
    with pytest.raises(tutti.Error) as caught:
        work.wait()
    assert caught.value.code == "aborted"
    assert world.allreduce(1) == world.size


def test_a_dropped_work_does_not_wait(world):
    begun = time.monotonic()
    for tag in range(100, 110):
        world.recv(numpy.zeros(1), world.rank, tag=tag, async_op=True)
    assert time.monotonic() - begun < 20
    for tag in range(100, 110):
        world.send(numpy.zeros(1), world.rank, tag=tag)
    world.barrier()


def test_callbacks(world):
    told = threading.Event()
    seen = []

    def note(work):
        seen.append(work.result[0])  # which a callback may do
        told.set()

    world.allreduce(numpy.ones(1), async_op=True).add_done_callback(note)
    assert told.wait(20) and seen == [world.size]


def test_event_loop(world):
    async def total(i):
        return (await world.allreduce(numpy.full(4, float(i)), async_op=True))[0]

    async def all_of_them():
        return await asyncio.gather(*(total(i) for i in range(100)))

    for _ in range(2):  # loops that come and go
        assert asyncio.run(all_of_them()) == [i * world.size for i in range(100)]

    async def failing():
        work = world.recv(numpy.zeros(1), world.rank, tag=79, async_op=True)
        asyncio.get_running_loop().call_later(0.01, work.cancel)
        await work

    with pytest.raises(tutti.Error, match="."):
        asyncio.run(failing())


def test_threads(world):
    """The GIL is not held while a call waits: a thread of the same process sends what another one waits for."""
    got = numpy.zeros(1)
    thread = threading.Thread(target=lambda: (time.sleep(0.05), world.send(numpy.ones(1), world.rank, tag=80)))
    thread.start()
    world.recv(got, world.rank, tag=80)
    thread.join()
    assert got[0] == 1


def test_errors(world):
    for wrong, says in ((lambda: world.broadcast(numpy.ones(1), root=99), "root 99 is not a rank"),
                        (lambda: world.allreduce(numpy.ones(1), "middle"), "no operator 'middle'"),
                        (lambda: world.allreduce(numpy.ones(1, "i4"), "avg"), "avg is not defined for i32"),
                        (lambda: world.allreduce(numpy.ones(2), out=numpy.ones(3)), "out has 3 elements"),
                        (lambda: world.send(numpy.ones(1), 0, tag=-1), "negative"),
                        (lambda: tutti.init(colour="red"), "colour")):
        with pytest.raises(tutti.Error, match=says) as caught:
            wrong()
        assert caught.value.code == "invalid" and caught.value.culprit is None
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.code) == (str(caught.value), "invalid")
    with pytest.raises(ValueError, match="one entry for each rank"):
        world.reduce_scatterv(numpy.ones(1), [1] * (world.size + 1))
    assert world.allreduce(1) == world.size


def test_mismatch(world):
    if world.size == 1:
        pytest.skip("wants two ranks")
    other = world.dup()
    with pytest.raises(tutti.Error) as caught:
        other.allreduce(numpy.ones(2 if world.rank == 0 else 3))
    assert caught.value.code == "mismatch"
    world.barrier()


def test_objects(world):
    n, mine = world.size, {"rank": world.rank, "data": numpy.arange(1000) + world.rank, "text": "x" * world.rank}
    everyone = world.allgather_object(mine)
    assert [one["rank"] for one in everyone] == list(range(n)) and (everyone[-1]["data"] == numpy.arange(1000) + n - 1).all()
    everyone[0]["data"] += 1  # it can be written
    assert world.broadcast_object(mine if world.rank == n - 1 else None, root=n - 1)["rank"] == n - 1
    gathered = world.gather_object(world.rank * "ab")
    assert gathered == ([r * "ab" for r in range(n)] if world.rank == 0 else None)
    assert world.scatter_object([[r] * r for r in range(n)] if world.rank == 0 else None) == [world.rank] * world.rank
    with pytest.raises(ValueError, match="one value for each|."):
        world.scatter_object([1] * (n + 1) if world.rank == 0 else None)
    world.send_object(("to", world.rank), world.rank, tag=5)
    assert world.recv_object(world.rank, tag=5) == ("to", world.rank)


class Table:
    """A store of this process."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def wait(self, key, seconds):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, seconds):
                raise TimeoutError(key)
            return self.values[key]

    def find(self, key):
        return self.values.get(key)

    def add(self, key, amount):
        with self.changed:
            now = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(now).encode()
            return now

    def set_once(self, key, value):
        with self.changed:
            value = self.values.setdefault(key, value)
            self.changed.notify_all()
            return value

    def erase(self, key):
        self.values.pop(key, None)


@pytest.mark.parametrize("kind", ["object", "file"])
def test_connect(kind, tmp_path):
    store = Table() if kind == "object" else f"file://{tmp_path}/store"

    def start(ranks, size, **settings):
        """What each rank gets, or the text of its error."""
        totals = [None] * size

        def one(rank):
            try:
                totals[rank] = tutti.connect(store, rank, size, timeout=60, **settings).allreduce(rank)
            except tutti.Error as error:
                totals[rank] = str(error)

        threads = [threading.Thread(target=one, args=(rank,)) for rank in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return totals

    assert start(range(3), 3) == [3, 3, 3]
    # The store outlives jobs: of another size, and one in which a rank did not come.
    assert start(range(2), 2) == [1, 1]
    incomplete = start([0, 2], 3, connect_timeout=0.5)
    assert all("rank 1 has not joined the others" in incomplete[rank] for rank in (0, 2)), incomplete
    assert start(range(3), 3) == [3, 3, 3]


def program(text, **options):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]  # of forks beside threads
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE, **options)


def test_interrupt(world):
    if world.rank:
        pytest.skip("once is enough")
    # A program that was started in the background ignores the signal unless it says otherwise.
    waiting = program("import signal, numpy, tutti\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                      "world = tutti.init()\nprint('ready', flush=True)\nworld.recv(numpy.zeros(1), 0)")
    assert waiting.stdout.readline() == "ready\n"
    time.sleep(0.3)
    begun = time.monotonic()
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=30)
    assert "KeyboardInterrupt" in said and waiting.returncode == -signal.SIGINT  # 130, as a shell says it
    print(f"interrupted after {time.monotonic() - begun:.3f} s")


def test_ends_with_calls_in_flight(world):
    if world.rank:
        pytest.skip("once is enough")
    ended = program("import numpy, tutti\nworld = tutti.init()\nkept = world.recv(numpy.zeros(1), 0, async_op=True)\n"
                    "world.recv(numpy.zeros(1), 0, async_op=True)\nworld.barrier(async_op=True).add_done_callback(print)")
    _, said = ended.communicate(timeout=60)
    assert ended.returncode == 0 and said == ""


def test_fork(world):
    if world.rank:
        pytest.skip("once is enough")
    text = """
import os, sys, numpy, tutti
world = tutti.init()
world.barrier(async_op=True).add_done_callback(lambda work: None)
child = os.fork()
if child == 0:
    try:
        world.allreduce(numpy.ones(1))
    except tutti.Error as error:
        sys.exit(error.code != "invalid")  # with all that a Python's end does
    sys.exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or world.allreduce(1) - 1)
"""
    ended = program(text)
    _, said = ended.communicate(timeout=60)
    assert (ended.returncode, said) == (0, "")


def test_info():
    assert tutti.info()["version"] == tutti.version() and "timeout" in tutti.info()["settings"]
