"""Every call on NumPy arrays: rank r gives what follows from r, so each result has a formula."""

import numpy
import pytest

import tutti

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def block(rank, n=3):
    return numpy.arange(n) + 10 * rank


@pytest.mark.parametrize("dtype", TYPES)
def test_allreduce(world, dtype):
    data = numpy.array([1, 2, 3], dtype) + numpy.array(world.rank, dtype)
    out = numpy.zeros_like(data)
    assert world.allreduce(data, out=out) is out
    assert (out == sum(numpy.array([1, 2, 3]) + r for r in range(world.size))).all()
    assert world.allreduce(data, "max") is data
    assert (data == numpy.array([1, 2, 3]) + world.size - 1).all()


@pytest.mark.parametrize("op, expected", [
    ("sum", lambda n: n * (n + 1) / 2), ("avg", lambda n: (n + 1) / 2), ("min", lambda n: 1), ("max", lambda n: n),
    ("prod", lambda n: float(numpy.prod(numpy.arange(1, n + 1))))])
def test_operators(world, op, expected):
    data = numpy.array([1.0 + world.rank])
    world.allreduce(data, op)
    assert data[0] == expected(world.size)


def test_operators_on_bits(world):
    data = numpy.array([1 << world.rank, 3])
    assert list(world.allreduce(data.copy(), "bor")) == [(1 << world.size) - 1, 3]
    assert list(world.allreduce(data.copy(), "band")) == [1 if world.size == 1 else 0, 3]
    assert world.allreduce(numpy.array([2.0]), "premul_sum", factor=0.5)[0] == world.size
    with pytest.raises(tutti.Error, match="factor is for the operator premul_sum, not for sum"):
        world.allreduce(numpy.array([2.0]), factor=0.5)


def test_truth_and_complex(world):
    truth = numpy.array([world.rank == 0, True, False])
    assert list(world.allreduce(truth.copy())) == [True, True, False]
    assert list(world.allreduce(truth.copy(), "prod")) == [world.size == 1, True, False]
    numbers = numpy.array([1 + 2j * world.rank], numpy.complex64)
    assert world.allreduce(numbers)[0] == world.size + 1j * world.size * (world.size - 1)


def test_reduce(world):
    root = world.size - 1
    result = world.reduce(block(world.rank), root=root, out=numpy.zeros(3, int) if world.rank == root else None)
    if world.rank == root:
        assert list(result) == list(sum(block(r) for r in range(world.size)))
    else:
        assert result is None


def test_numbers(world):
    n = world.size
    assert world.allreduce(world.rank + 1) == n * (n + 1) // 2
    assert world.allreduce(0.5 * world.rank, "max") == 0.5 * (n - 1)
    assert world.allreduce(world.rank == 0) is True
    assert world.allreduce(1j) == n * 1j
    assert world.broadcast(world.rank + 7, root=n - 1) == n + 6
    assert list(world.allgather(world.rank)) == list(range(n))
    assert world.reduce(2, root=0) == (2 * n if world.rank == 0 else None)


def test_broadcast(world):
    data = block(world.rank)
    assert world.broadcast(data, root=world.size - 1) is data
    assert list(data) == list(block(world.size - 1))


def test_gathers(world):
    everyone = numpy.stack([block(r) for r in range(world.size)])
    assert (world.allgather(block(world.rank)) == everyone).all()
    out = numpy.zeros((world.size, 3), int)
    assert world.allgather(block(world.rank), out=out) is out and (out == everyone).all()
    result = world.gather(block(world.rank), root=world.size - 1)
    assert (result == everyone).all() if world.rank == world.size - 1 else result is None


def test_gathers_with_counts(world):
    mine = numpy.full((world.rank + 1, 2), world.rank)
    rows = numpy.concatenate([numpy.full((r + 1, 2), r) for r in range(world.size)])
    assert (world.allgatherv(mine) == rows).all()
    assert (world.allgatherv(mine, [r + 1 for r in range(world.size)]) == rows).all()
    result = world.gatherv(mine)
    assert (result == rows).all() if world.rank == 0 else result is None


def test_scatters(world):
    n = world.size
    all_rows = numpy.arange(2 * n * 2).reshape(2 * n, 2) if world.rank == 0 else None
    out = numpy.zeros((2, 2), int)
    assert world.scatter(all_rows, out=out) is out
    assert (out == numpy.arange(4).reshape(2, 2) + 4 * world.rank).all()
    counts = [r + 1 for r in range(n)]
    data = numpy.arange(sum(counts)) if world.rank == 0 else None
    part = numpy.zeros(world.rank + 1, int)
    world.scatterv(data, counts if world.rank == 0 else None, out=part)
    assert list(part) == list(range(sum(counts[: world.rank]), sum(counts[: world.rank + 1])))


def test_reduce_scatters(world):
    n = world.size
    result = world.reduce_scatter(numpy.arange(2 * n) * (world.rank + 1))
    assert list(result) == [i * n * (n + 1) // 2 for i in (2 * world.rank, 2 * world.rank + 1)]
    counts = [r % 3 for r in range(n)]
    result = world.reduce_scatterv(numpy.ones((sum(counts), 2)), counts)
    assert result.shape == (counts[world.rank], 2) and (result == n).all()


def test_alltoalls(world):
    n = world.size
    assert list(world.alltoall(numpy.arange(n) + 10 * world.rank)) == [10 * r + world.rank for r in range(n)]
    counts = [r + 1 for r in range(n)]
    data = numpy.concatenate([numpy.full(c, 10 * world.rank + r) for r, c in enumerate(counts)])
    wanted = numpy.concatenate([numpy.full(world.rank + 1, 10 * r + world.rank) for r in range(n)])
    assert (world.alltoallv(data, counts) == wanted).all()
    assert (world.alltoallv(data, counts, [world.rank + 1] * n) == wanted).all()


def test_messages(world):
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    got = numpy.zeros(3, int)
    sending = world.send(block(world.rank), after, tag=3, async_op=True)
    assert world.recv(got, before, tag=3) is got
    sending.wait()
    assert list(got) == list(block(before))
    assert list(world.sendrecv(block(world.rank), after, before)) == list(block(before))
    assert list(world.shift(block(world.rank), -1)) == list(block(after))
    sending = world.send(block(world.rank), after, tag=4, async_op=True)
    assert world.recv_any(got, tag=4) == before
    sending.wait()
    world.barrier()


def test_probe(world):
    after, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    assert world.probe(before, tag=9) is None
    world.barrier()
    sending = world.send(numpy.zeros(3, "f4"), after, tag=9, async_op=True)
    while (there := world.probe(tag=9)) is None:
        pass
    assert (there.source, there.tag, there.bytes) == (before, 9, 12)
    world.recv(numpy.zeros(3, "f4"), before, tag=9)
    sending.wait()


def test_groups(world):
    half = world.split(world.rank % 2, -world.rank)
    assert half.size == (world.size + 1 - world.rank % 2) // 2
    assert half.world_rank(0) % 2 == world.rank % 2
    assert world.split(-1) is None
    assert world.dup().allreduce(1) == world.size
    assert world.node().size == world.size and world.across().size == 1
    assert world.split_by("even" if world.rank % 2 == 0 else "odd").size == half.size
    first = world.subgroup([0])
    assert (first is not None) == (world.rank == 0)
    assert world.group([world.rank], "alone").size == 1
    assert len(world.topology()) == world.size and world.routes()[world.rank] == "self"
    assert (world.Get_rank(), world.Get_size()) == (world.rank, world.size)


def test_memory(world):
    data = world.allocate([4, 2], "f64")
    assert data.shape == (4, 2) and data.dtype == numpy.float64 and not data.any()
    data += 1
    assert (world.allreduce(data) == world.size).all()
    with pytest.raises(Exception, match="no element type"):
        world.allocate([1], "f31")


def test_a_copy_crosses_in_a_capsule(world):
    again = type(world)._from_capsule(world._capsule())
    assert (again.rank, again.size) == (world.rank, world.size)
