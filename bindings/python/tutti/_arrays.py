"""New arrays like those that a program gave."""

from __future__ import annotations

import math
from typing import Any

_NUMBERS: dict[type, tuple[str, str]] = {bool: ("?", "?"), int: ("int64", "q"), float: ("float64", "d"), complex: ("complex128", "")}


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """An array of `shape` with the type, the library and the place of `like`; its contents are not set.

    What is no array of a library (a buffer, a number) gives a NumPy array, or a memoryview where NumPy is missing.
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
    """Without NumPy: memory of the interpreter's own."""
    code = _NUMBERS[type(like)][1] if type(like) in _NUMBERS else memoryview(like).format
    if not code:
        raise TypeError("there is no NumPy here for the result's type; give `out`")
    size = memoryview(b"").cast("B").cast(code).itemsize
    flat = memoryview(bytearray(math.prod(shape) * size))
    return flat.cast(code, shape) if flat.nbytes else flat.cast(code)
