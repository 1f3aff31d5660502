"""Ranks die, and the others go on without them; processes join. The ranks here are processes of their own."""

import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest

import tutti

SHARED = """
import os, signal, numpy, tutti
world = tutti.init(timeout=50)

def use(group, size):
    assert group.size == size, group.size
    data = numpy.full(1000, group.rank + 1)
    group.allreduce(data)
    assert (data == size * (size + 1) // 2).all(), data

def until_lost(group):
    try:
        while True:
            group.barrier()
    except tutti.Error as error:
        assert error.code == "peer_lost", error
        return error.culprit
"""

DIES = SHARED + """
if world.rank == 1:
    world.barrier()
    os.kill(os.getpid(), signal.SIGKILL)
assert until_lost(world) == 1
assert world.agree(6 if world.rank == 0 else 12) == (4, [0, 2])
assert world.agree() == (2**64 - 1, [0, 2])
left = world.shrink()
use(left, 2)
assert (left.rank, left.epoch) == (world.rank // 2, 0)
same = left.grow(0)
use(same, 2)
while left.waiting() == 0:
    pass
assert left.waiting() == 1
use(left, 2)
grown = left.grow(most=1, patience=30.0)
use(grown, 3)
assert grown.rank == left.rank and grown.epoch > 0
use(left, 2)
"""

JOINS = SHARED + """
assert world.rank == 2 and world.epoch > 0
use(world, 3)
"""


def begin(text, folder, **variables):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
    own = {"TUTTI_STORE": f"file://{folder}/store", "TUTTI_JOB": "survival", "TUTTI_SECRET": "secret", "TUTTI_TUNING": "off"}
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=kept | own | variables)


def test_goes_on_without_a_killed_rank_and_admits_another_process(world, tmp_path):
    if world.rank:
        pytest.skip("once is enough")
    started = [begin(DIES, tmp_path, TUTTI_RANK=str(rank), TUTTI_SIZE="3") for rank in range(3)]
    started.append(begin(JOINS, tmp_path, TUTTI_JOIN="1"))
    try:
        said = [one.communicate(timeout=60)[1] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0, -signal.SIGKILL, 0, 0], said


def test_all_are_left(world):
    everyone = list(range(world.size))
    assert world.agree(~(1 << world.rank) & 0xff) == (0xff & ~((1 << world.size) - 1), everyone)
    again = world.shrink()
    assert (again.rank, again.size, again.epoch) == (world.rank, world.size, 0)
    assert world.waiting() == 0
    assert again.allreduce(1) == world.size and world.allreduce(1) == world.size


def test_the_gil_is_released(world):
    """Another thread of this process agrees on a second communicator while this one waits for the agreement of the first."""
    groups = [world.dup(), world.dup()]
    order = [0, 1] if world.rank % 2 else [1, 0]
    agreed = {}
    threads = [threading.Thread(target=lambda i=i: agreed.update({i: groups[i].agree(i)})) for i in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {i: bits for i, (bits, _) in agreed.items()} == {0: 0, 1: 1}


def test_wrong_arguments(world):
    for bits in (-1, 2**64):
        with pytest.raises(ValueError, match=r"bits is a number of 64 bits, from 0 to 2\*\*64 - 1"):
            world.agree(bits)
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        world.agree(1.5)
    assert world.agree(numpy.uint8(3))[0] == 3
    with pytest.raises(tutti.Error, match="-1 processes") as caught:
        world.grow(-1)
    assert caught.value.code == "invalid"
    with pytest.raises(tutti.Error, match="NaN"):
        world.grow(1, float("nan"))
    assert world.allreduce(1) == world.size
