"""Whose memory a call takes: buffers, strides, DLPack of both kinds, types that NumPy does not have; and what it refuses."""

import array

import numpy
import pytest


class Lent:
    """An array of which only DLPack is known."""

    def __init__(self, data, versions=True):
        self.data, self.versions = data, versions

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versions and options:
            raise TypeError("this producer takes no arguments")
        return self.data.__dlpack__(**options)


def test_buffers(world):
    numbers = array.array("d", [1.0, 2.0])
    assert world.allreduce(numbers) is numbers and list(numbers) == [world.size, 2 * world.size]
    data = bytearray(b"\x01\x02")
    world.allreduce(memoryview(data)[1:])
    assert list(data) == [1, 2 * world.size]
    with pytest.raises(TypeError, match="read-only"):
        world.allreduce(b"ab")


def test_strides(world):
    data = numpy.arange(24.0).reshape(2, 3, 4)
    whole = data.copy()
    part = data.transpose(2, 0, 1)[::2, :, 1:]
    world.allreduce(part)
    changed = numpy.zeros(data.shape, bool)
    changed.transpose(2, 0, 1)[::2, :, 1:] = True
    assert (data == numpy.where(changed, world.size * whole, whole)).all()
    backwards = numpy.arange(3)[::-1]
    assert world.broadcast(backwards) is backwards and list(backwards) == [2, 1, 0]
    out = numpy.zeros((world.size, 6))[:, ::2]
    assert (world.allgather(numpy.arange(3.0), out=out) == numpy.arange(3.0)).all()
    pending = world.allreduce(part, async_op=True)
    pending.wait()
    assert data[0, 1, 0] == world.size**2 * whole[0, 1, 0] and data[0, 0, 0] == whole[0, 0, 0]


def test_shapes(world):
    point = numpy.array(2.0)
    assert world.allreduce(point) is point and point == 2 * world.size
    nothing = numpy.zeros((0, 3))
    assert world.allreduce(nothing) is nothing
    assert world.allgather(nothing).shape == (world.size, 0, 3)
    assert world.allgather(point).shape == (world.size,)


@pytest.mark.parametrize("versions", [True, False])
def test_dlpack(world, versions):
    data = numpy.arange(6.0).reshape(2, 3)
    world.allreduce(Lent(data, versions))
    assert (data == world.size * numpy.arange(6.0).reshape(2, 3)).all()
    world.allreduce(Lent(data[:, ::2], versions))
    assert data[1, 2] == world.size**2 * 5 and data[1, 1] == world.size * 4


def test_dlpack_that_is_read_only(world):
    data = numpy.ones(2)
    data.flags.writeable = False
    if numpy.lib.NumpyVersion(numpy.__version__) < "2.1.0":
        pytest.skip("this NumPy knows DLPack before 1.0 only")
    with pytest.raises(TypeError, match="data is read-only"):
        world.allreduce(Lent(data))
    assert world.allreduce(Lent(data), out=numpy.zeros(2))[0] == world.size


def test_bf16(world):
    half = numpy.array([0x3F80, 0x4000], numpy.uint16)  # 1 and 2
    world.allreduce(half, dtype="bf16", op="max")
    assert list(half) == [0x3F80, 0x4000]
    types = pytest.importorskip("ml_dtypes")
    data = numpy.array([1.5, 2], types.bfloat16)
    assert world.allreduce(data) is data
    assert list(data.astype(float)) == [1.5 * world.size, 2.0 * world.size]


def test_torch(world):
    torch = pytest.importorskip("torch")
    data = torch.arange(6.0).reshape(2, 3)
    assert world.allreduce(data.t()).shape == (3, 2) and data[1, 2] == 5 * world.size
    everyone = world.allgather(torch.full((2,), float(world.rank)))
    assert isinstance(everyone, torch.Tensor) and everyone[-1, 0] == world.size - 1
    half = torch.ones(3, dtype=torch.bfloat16)
    world.allreduce(half)
    assert half[0] == world.size
    with pytest.raises(Exception, match="grad"):
        world.allreduce(torch.ones(1, requires_grad=True))


def test_records_are_moved(world):
    data = numpy.zeros(2, [("a", "i4"), ("b", "f8")])
    data["a"] = world.rank
    assert world.broadcast(data, root=world.size - 1)["a"][1] == world.size - 1
    with pytest.raises(Exception, match="not defined for bytes"):
        world.allreduce(data)


class ByInterface:
    """An array by __array_interface__ alone."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("dtype", [object, [("a", "i4"), ("b", object)], [("a", [("b", "f8"), ("c", object)])]])
def test_objects_are_refused(world, dtype):
    for array in (numpy.zeros(2, dtype), ByInterface(numpy.zeros(2, dtype))):
        for call in (lambda: world.broadcast(array, root=0), lambda: world.allgather(array),
                     lambda: world.sendrecv(array, to=world.rank, source=world.rank)):
            with pytest.raises(TypeError, match=r"broadcast_object\(\), allgather_object\(\), send_object\(\)"):
                call()


class Claims:
    """An interface that says what its memory is not."""

    def __init__(self, **changes):
        self.array = numpy.zeros(4, "u1")
        self.__array_interface__ = {**self.array.__array_interface__, **changes}


ENDLESS = []
ENDLESS.append(("a", ENDLESS))


@pytest.mark.parametrize("changes", [
    {"shape": (3, 0x5555555555555556), "strides": (0, 0)}, {"shape": (2, 2), "strides": (4,)}, {"shape": (-4,)},
    {"shape": (2**62, 8)}, {"typestr": "|V8", "descr": ENDLESS}, {"typestr": "|V8", "descr": [("a", "O")]}])
def test_interfaces_that_cannot_be(world, changes):
    with pytest.raises((TypeError, ValueError)):
        world.broadcast(Claims(**changes), root=0)


def test_counts_whose_sum_is_too_large(world):
    counts = [5, 2**64 - 1] + [0] * (world.size - 2) if world.size > 1 else [2**64 - 1]
    with pytest.raises(Exception, match="the sum of the counts"):
        world.alltoallv(numpy.zeros(4, "u1"), in_counts=counts)


def test_an_o_in_a_name_is_no_object(world):
    data = numpy.zeros(2, [("O", "i4"), ("NO", "f8")])
    assert world.broadcast(data, root=0)["O"][1] == 0


@pytest.mark.parametrize("wrong", [[1.0], "text", None, object()])
def test_what_is_no_array(world, wrong):
    with pytest.raises(TypeError, match="give an array|incompatible"):
        world.allreduce(wrong)


def test_wrong_types_by_name(world):
    with pytest.raises(ValueError, match="no element type"):
        world.allreduce(numpy.zeros(1), dtype="f31")
    with pytest.raises(ValueError, match="has 2 bytes, but the array's elements have 8"):
        world.allreduce(numpy.zeros(1), dtype="bf16")
