"""Creates result arrays of the same kind as an input array."""

from __future__ import annotations

import math
from typing import Any

_NUMBERS: dict[type, tuple[str, str]] = {bool: ("?", "?"), int: ("int64", "q"), float: ("float64", "d"), complex: ("complex128", "")}


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialised array of `shape` with the dtype, array library and device of `like`.

    For a buffer or a number the result is a NumPy array, or a memoryview if NumPy is not installed. Bytes are bytes: NumPy alone
    would take b"ab" for one text of two.
    """
    if hasattr(like, "new_empty"):  # PyTorch
        return like.new_empty(shape)
    if type(like).__module__.partition(".")[0] != "numpy" and hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().empty(shape, dtype=like.dtype, device=like.device)
    try:
        import numpy
    except ImportError:
        return _plain(like, shape)
    if type(like) in _NUMBERS:
        return numpy.empty(shape, dtype=_NUMBERS[type(like)][0])
    return numpy.empty(shape, dtype=_dtype(numpy, like))


def _dtype(numpy: Any, like: Any) -> Any:
    """The type of an array's elements. Memory that has no address in Python is looked at without a copy of it."""
    if isinstance(like, (numpy.ndarray, numpy.generic)) and not isinstance(like, bytes):
        return like.dtype
    try:
        return numpy.asarray(memoryview(like)).dtype
    except (TypeError, ValueError):  # no buffer, or of a type that buffers do not know
        pass
    if not hasattr(like, "__array_interface__") and hasattr(like, "__dlpack__"):
        return numpy.from_dlpack(like).dtype
    return numpy.asarray(like).dtype


def point(scalar: Any) -> Any:
    """A NumPy scalar as an array of no dimensions."""
    import numpy

    return numpy.asarray(scalar)


def number(like: Any, value: bytes) -> Any:
    """The number with this memory, of the type of the NumPy scalar `like`."""
    import numpy

    return numpy.frombuffer(value, like.dtype)[0]


def _plain(like: Any, shape: tuple[int, ...]) -> memoryview:
    """As empty(), without NumPy: a memoryview of a bytearray."""
    code = _NUMBERS[type(like)][1] if type(like) in _NUMBERS else memoryview(like).format
    if not code:
        raise TypeError("there is no NumPy here for the result's type; give `out`")
    size = memoryview(b"").cast("B").cast(code).itemsize
    flat = memoryview(bytearray(math.prod(shape) * size))
    return flat.cast(code, shape) if flat.nbytes else flat.cast(code)
