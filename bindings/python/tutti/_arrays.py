"""Creates result arrays of the same kind as an input array."""

from __future__ import annotations

import math
from typing import Any

_NUMBERS: dict[type, tuple[str, str]] = {bool: ("?", "?"), int: ("int64", "q"), float: ("float64", "d"), complex: ("complex128", "")}


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialised array of `shape` with the dtype, array library and device of `like`.

    For a buffer or a number the result is a NumPy array, or a memoryview if NumPy is not installed.
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
    return numpy.empty(shape, dtype=numpy.asarray(like).dtype)


def _plain(like: Any, shape: tuple[int, ...]) -> memoryview:
    """As empty(), without NumPy: a memoryview of a bytearray."""
    code = _NUMBERS[type(like)][1] if type(like) in _NUMBERS else memoryview(like).format
    if not code:
        raise TypeError("there is no NumPy here for the result's type; give `out`")
    size = memoryview(b"").cast("B").cast(code).itemsize
    flat = memoryview(bytearray(math.prod(shape) * size))
    return flat.cast(code, shape) if flat.nbytes else flat.cast(code)
