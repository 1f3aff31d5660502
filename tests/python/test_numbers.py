"""Numbers of Python and NumPy: a number gives a number of its type, and what does not fit is an OverflowError on all ranks."""

import decimal
import fractions

import numpy
import pytest

import tutti

SCALARS = [numpy.int8, numpy.uint8, numpy.int16, numpy.uint16, numpy.int32, numpy.uint32, numpy.int64, numpy.uint64, numpy.float16,
           numpy.float32, numpy.float64, numpy.complex64, numpy.complex128]


@pytest.mark.parametrize("kind", SCALARS)
def test_a_scalar_of_numpy(world, kind):
    n = world.size
    total = world.allreduce(kind(world.rank + 1))
    assert type(total) is kind and total == n * (n + 1) // 2
    if not issubclass(kind, numpy.complexfloating):
        assert type(world.allreduce(kind(world.rank), "max")) is kind
    first = world.broadcast(kind(world.rank + 1), root=n - 1)
    assert type(first) is kind and first == n
    everyone = world.allgather(kind(world.rank))
    assert everyone.dtype == kind and list(everyone) == list(range(n))
    at_root = world.reduce(kind(2), root=n - 1)
    assert at_root == 2 * n and type(at_root) is kind if world.rank == n - 1 else at_root is None
    before = world.shift(kind(world.rank))
    assert type(before) is kind and before == (world.rank - 1) % n
    pending = world.allreduce(kind(1), async_op=True)
    assert pending.wait() == n and type(pending.result) is kind


def test_truth(world):
    total = world.allreduce(numpy.bool_(world.rank == 0))
    assert type(total) is numpy.bool_ and total
    assert world.allreduce(numpy.bool_(world.rank == 0), "prod") == (world.size == 1)
    assert world.allreduce(True, "prod") is True


def test_results_of_numpy(world):
    x = numpy.arange(4, dtype="f4")
    assert type(world.allreduce(x.sum())) is numpy.float32
    assert world.allreduce(x.mean()) == 1.5 * world.size
    assert type(world.allreduce(numpy.arange(3).max())) is numpy.int64


@pytest.mark.parametrize("out", [5, 0.5, numpy.float64(0)])
def test_numbers_have_no_memory(world, out):
    for call in (lambda: world.allreduce(numpy.zeros(1), out=out), lambda: world.allgatherv(numpy.zeros(1), out=out),
                 lambda: world.recv(out, 0), lambda: world.allreduce(1.5, out=out)):
        with pytest.raises(TypeError, match="is a number, which has no memory; give an array"):
            call()
    assert world.allreduce(1) == world.size


def test_a_number_of_python_stays_one(world):
    n = world.size
    for value in (3, 1.5, 2 - 1j):
        assert type(world.shift(value)) is type(value) and world.shift(value) == value
        assert type(world.sendrecv(value, world.rank, world.rank)) is type(value)
    out = numpy.zeros(())
    assert world.allreduce(1.5, out=out) is out and out == 1.5 * n


def test_sums_of_integers(world):
    n = world.size
    for value in (0, -1, 2**31, -(2**31) - 1, 2**62 // n, -(2**62) // n, (2**63 - 1) // n, -(2**63) // n):
        assert world.allreduce(value) == n * value
    assert world.allreduce(2**63 - 1 if world.rank == 0 else 0) == 2**63 - 1
    assert world.allreduce(-(2**63) if world.rank == 0 else 0) == -(2**63)


def test_sums_that_do_not_fit(world):
    n = world.size
    if n == 1:
        return
    for first, others in ((2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62)):
        for call in (world.allreduce, lambda value: world.allreduce(value, async_op=True).wait()):
            with pytest.raises(OverflowError, match="sum of the ranks' integers"):
                call(first if world.rank == 0 else others)
    assert world.allreduce(2**63 - 1 if world.rank == 0 else -1) == 2**63 - n  # more than 64 bits in between, or not
    assert world.allreduce(-(2**63) + n - 1 if world.rank == 0 else -1) == -(2**63)
    if world.rank == 0:
        with pytest.raises(OverflowError):
            world.reduce(2**62)
    else:
        assert world.reduce(2**62) is None
    pending = world.allreduce(2**62, async_op=True)
    for _ in range(2):
        with pytest.raises(OverflowError):
            pending.wait()
    assert world.allreduce(1) == n


def test_products_of_integers(world):
    n = world.size
    assert world.allreduce(world.rank - 3, "prod") == numpy.prod(numpy.arange(n) - 3)
    assert world.allreduce(-(2**63) if world.rank == 0 else 1, "prod") == -(2**63)
    assert world.allreduce(0 if world.rank == 0 else 2**62, "prod") == 0
    at_root = world.reduce(2, "prod", root=n - 1)
    assert at_root == (2**n if world.rank == n - 1 else None)
    if n == 1:
        return
    assert world.allreduce({0: 2**62, 1: -2}.get(world.rank, 1), "prod") == -(2**63)
    for factor in (2, -4):
        with pytest.raises(OverflowError, match="product of the ranks' integers"):
            world.allreduce({0: 2**62, 1: factor}.get(world.rank, 1), "prod")
    assert world.allreduce(1) == n


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**70])
def test_integers_that_do_not_fit(world, value):
    for call in (world.allreduce, lambda x: world.allreduce(x, "max"), world.broadcast, world.allgather, world.gather, world.shift):
        with pytest.raises(OverflowError, match="does not fit into 64 bits"):
            call(value)
    assert world.allreduce(1) == world.size


@pytest.mark.parametrize("value", [decimal.Decimal(1), fractions.Fraction(1, 2), "text", [1], {}, print])
def test_what_is_no_number(world, value):
    for call in (world.allreduce, world.allgather, world.shift):
        with pytest.raises(TypeError):
            call(value)
    assert world.allreduce(1) == world.size


def test_numbers_that_can_only_be_moved(world):
    for value in (numpy.longdouble(1.5), numpy.clongdouble(2)):
        with pytest.raises(TypeError, match="sum is not defined for bytes"):
            world.allreduce(value)
        assert list(world.allgather(value)) == [value] * world.size
    for value in (numpy.datetime64("2020-02-02"), numpy.str_("text")):
        assert list(world.allgather(value)) == [value] * world.size
        with pytest.raises(TypeError):
            world.allreduce(value)


def test_nothing_is_an_object(world):
    n = world.size
    assert world.allgather_object(None) == [None] * n
    assert world.broadcast_object(None) is None
    assert world.gather_object(None) == ([None] * n if world.rank == 0 else None)
    assert world.scatter_object([None] * n if world.rank == 0 else None) is None


@pytest.mark.parametrize("seconds", [float("nan"), -1.0, 0.0])
def test_seconds_are_numbers(world, seconds):
    with pytest.raises(tutti.Error, match="give more than 0 seconds") as caught:
        world.barrier(timeout=seconds)
    assert caught.value.code == "invalid"
    pending = world.barrier(async_op=True)
    with pytest.raises(tutti.Error, match="NaN"):
        pending.wait(timeout=float("nan"))
    pending.wait()
