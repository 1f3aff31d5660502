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


def test_masks(world):
    """Masked items would be reduced as if they counted. Without any, the array is one like others."""
    whole = numpy.ma.array([1.0, 2.0], mask=[False, False])
    assert list(world.allreduce(whole).data) == [world.size, 2.0 * world.size]
    for masked in (numpy.ma.array([1.0, 2.0], mask=[False, True]), numpy.ma.masked_all(3)):
        with pytest.raises(TypeError, match="the array is masked; fill it"):
            world.allreduce(masked)
    assert world.allreduce(1) == world.size


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

    def __init__(self, array, **changes):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


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


def test_bytes(world):
    n, before = world.size, (world.rank - 1) % world.size
    mine = b"ab" * (world.rank + 1)
    assert world.allgather(b"ab").tolist() == [[97, 98]] * n
    at_root = world.gather(b"ab", root=n - 1)
    assert at_root.tolist() == [[97, 98]] * n if world.rank == n - 1 else at_root is None
    assert world.allgatherv(mine).tobytes() == b"ab" * (n * (n + 1) // 2)
    assert world.shift(b"xy").tobytes() == b"xy"
    assert world.sendrecv(bytes([world.rank]), (world.rank + 1) % n, before).tobytes() == bytes([before])
    assert world.alltoall(b"ab" * n).tobytes() == b"ab" * n
    assert world.scatter(b"abcd" * n if world.rank == 0 else None, out=bytearray(4)) == b"abcd"
    assert world.allgather(memoryview(b"abc")).shape == (n, 3)
    assert world.allgather(array.array("H", [7])).dtype == numpy.uint16
    assert world.allgather(numpy.bytes_(b"ab")).tolist() == [[97, 98]] * n
    world.barrier()


def test_what_is_only_read_may_be_read_only(world):
    n, root = world.size, world.size - 1
    fixed = numpy.arange(4.0) + world.rank
    fixed.setflags(write=world.rank != root)
    assert list(world.broadcast(fixed, root)) == [root, root + 1, root + 2, root + 3]
    fixed.setflags(write=False)
    strided = numpy.arange(8.0)[::2]
    strided.setflags(write=False)
    for data in (fixed, strided):
        total = world.allreduce(data, out=numpy.zeros(4))
        assert (total == n * data).all()
        world.reduce(data, root=root, out=numpy.zeros(4) if world.rank == root else None)
        if world.rank != 0:
            world.reduce(data)
        else:
            with pytest.raises(TypeError, match="read-only"):
                world.reduce(data)
            world.reduce(data.copy())
        assert (world.allgather(data) == data).all() and (world.shift(data) == data).all()
        assert (world.reduce_scatter(numpy.tile(data, n)) == n * data).all()
        assert (world.scatter(numpy.tile(data, n) if world.rank == 0 else None, out=numpy.zeros(4)) == data).all()
    world.barrier()


@pytest.mark.parametrize("dtype", [">u2", ">f8", ">c8", "U3", "S2", "M8[ns]", "m8[D]", "f16", "V3"])
def test_types_that_can_only_be_moved(world, dtype):
    if dtype[0] in ">f":
        first, other = numpy.array([200, 300], dtype), numpy.array([1, 2], dtype)
    else:
        first, other = numpy.array([b"1", b"2"]).astype("S3").astype(dtype), numpy.array([b"3", b"4"]).astype("S3").astype(dtype)
    for wrap in (lambda x: x, ByInterface):
        with pytest.raises(TypeError, match="sum is not defined for bytes: the elements .* can only be moved"):
            world.allreduce(wrap(first.copy()))
        mine = (first if world.rank == 0 else other).copy()
        world.broadcast(wrap(mine))
        assert (mine == first).all()
    assert (world.allgather(first) == first).all()
    assert world.allreduce(1) == world.size


@pytest.mark.parametrize("code", [">H", "!d", ">i"])
def test_buffers_of_another_byte_order(world, code):
    ctypes = pytest.importorskip("ctypes")
    kind = {"H": ctypes.c_uint16, "d": ctypes.c_double, "i": ctypes.c_int32}[code[1]].__ctype_be__
    with pytest.raises(TypeError, match="can only be moved"):
        world.allreduce((kind * 2)(1, 2))


class Interface:
    def __init__(self, **fields):
        self.__array_interface__ = {"version": 3, **fields}


def test_memory_by_a_buffer(world):
    memory = bytearray(numpy.arange(6.0).tobytes())
    twice = Interface(shape=(2, 2), typestr="<f8", data=memory, offset=8, strides=(24, 8))
    world.allreduce(twice)
    n = world.size
    assert list(numpy.frombuffer(memory)) == [0, n, 2 * n, 3, 4 * n, 5 * n]
    assert world.allgather(Interface(shape=(2,), typestr="<i4", data=b"abcdefgh", offset=0)).shape == (n, 2)
    with pytest.raises(TypeError, match="read-only"):
        world.allreduce(Interface(shape=(2,), typestr="<i4", data=b"abcdefgh"))
    backwards = Interface(shape=(3,), typestr="|u1", data=bytearray(b"abc"), offset=2, strides=(-1,))
    assert world.allgather(backwards)[0].tolist() == [99, 98, 97]


@pytest.mark.parametrize("changes", [
    {"shape": (4,)}, {"offset": 1}, {"offset": -1}, {"offset": 2**63 - 1}, {"strides": (8,)}, {"strides": (-4,)}, {"shape": (-1,)},
    {"shape": (2, 2**62)}, {"strides": (4, 4)}, {"mask": bytearray(3)}, {"typestr": "<t3"}, {"typestr": "x"}, {"typestr": "?f4"},
    {"typestr": "<f4x"}, {"data": None}, {"data": 5}])
def test_memory_that_a_buffer_does_not_have(world, changes):
    fields = {"shape": (3,), "typestr": "<f4", "data": bytearray(12), **changes}
    with pytest.raises((TypeError, ValueError, OverflowError)):
        world.allreduce(Interface(**fields))


class Convertible:
    """What NumPy can make an array of, as tables and images."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return numpy.array(self.values)


def test_what_becomes_an_array_is_read(world):
    data = Convertible([1.0, 2.0])
    assert list(world.allreduce(data, out=numpy.zeros(2))) == [world.size, 2 * world.size]
    assert world.allgather(data).shape == (world.size, 2)
    with pytest.raises(TypeError, match="give an array"):
        world.allreduce(data)
    with pytest.raises(TypeError, match="references to Python objects"):
        world.allgather(Convertible([{}]))


class Empty:
    """A producer whose capsule somebody has taken already."""

    def __init__(self):
        self.capsule = numpy.zeros(2).__dlpack__()
        numpy.from_dlpack(self)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return self.capsule


def test_no_tensor_in_the_capsule(world):
    with pytest.raises(TypeError, match="no capsule that holds a tensor"):
        world.allreduce(Empty(), out=numpy.zeros(2))


def test_two_types(world):
    with pytest.raises(TypeError, match="data holds c64 and out f32; they must be of one type"):
        world.allreduce(numpy.zeros(2, "c8"), out=numpy.zeros(4, "f4"))
    with pytest.raises(TypeError, match="data holds i32 and out f32"):
        world.allgather(numpy.zeros(2, "i4"), out=numpy.zeros(2 * world.size, "f4"))


def test_what_is_wrong_is_found_before_anything_leaves(world):
    n = world.size
    fixed = numpy.zeros(n)
    fixed.setflags(write=False)
    for call in (lambda: world.allgatherv(numpy.zeros(2), out=fixed), lambda: world.allgatherv(numpy.array(1.0)),
                 lambda: world.alltoallv(numpy.zeros(n), [1] * n, out=fixed), lambda: world.alltoallv(numpy.zeros(n), [2] * n),
                 lambda: world.allgatherv(numpy.zeros(2), [2**62] * n), lambda: world.allgatherv(numpy.zeros(2), [2**64 - 1] * n),
                 lambda: world.reduce_scatterv(numpy.zeros((n, 4)), [2**62] * n), lambda: world.allocate([2**40, 2**40]),
                 lambda: world.allocate([2**63 - 1], "f64")):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            call()
        assert world.allreduce(1) == n
    if world.rank == 0:  # the others have given their part, which the root takes when it asks rightly
        with pytest.raises(TypeError):
            world.gather(numpy.ones(2), out=numpy.zeros((n, 2), "i4"))
        with pytest.raises(TypeError):
            world.gatherv(numpy.ones(2), [2] * n, out=b"12345678")
    for _ in range(2):
        at_root = world.gather(numpy.ones(2))
        assert (at_root == 1).all() if world.rank == 0 else at_root is None
    assert world.allreduce(1) == n
