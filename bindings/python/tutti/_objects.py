"""Sends Python objects: pickled with the highest protocol; large buffers, such as NumPy's, are sent out of band."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("<Q")


def pack(value: Any) -> bytearray:
    """The message for an object: the number of parts, the length of each, the pickle, the buffers that it refers to."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    parts: list[bytes | memoryview] = [head, *(one.raw() for one in buffers)]
    packed = bytearray(_LENGTH.pack(len(parts)))
    for part in parts:
        packed += _LENGTH.pack(len(part))
    for part in parts:
        packed += part
    return packed


def unpack(packed: memoryview) -> Any:
    """The object of a message. Its buffers are views of `packed`, which must not be reused."""
    (count,) = _LENGTH.unpack_from(packed, 0)
    lengths = [_LENGTH.unpack_from(packed, _LENGTH.size * (1 + i))[0] for i in range(count)]
    at = _LENGTH.size * (1 + count)
    parts = []
    for length in lengths:
        parts.append(packed[at : at + length])
        at += length
    return pickle.loads(parts[0], buffers=parts[1:])


def _split(packed: bytearray, counts: Sequence[int]) -> list[Any]:
    """The objects of consecutive messages with these lengths."""
    values, at, view = [], 0, memoryview(packed)
    for count in counts:
        values.append(unpack(view[at : at + count]))
        at += count
    return values


def _counts(communicator: Any, mine: int) -> list[int]:
    everyone = bytearray(8 * communicator.size)
    communicator.allgather(_LENGTH.pack(mine), out=everyone)
    return [_LENGTH.unpack_from(everyone, 8 * i)[0] for i in range(communicator.size)]


def allgather(communicator: Any, value: Any) -> list[Any]:
    mine = pack(value)
    counts = _counts(communicator, len(mine))
    everyone = bytearray(sum(counts))
    communicator.allgatherv(mine, counts, out=everyone)
    return _split(everyone, counts)


def gather(communicator: Any, value: Any, root: int) -> list[Any] | None:
    mine = pack(value)
    counts = _counts(communicator, len(mine))
    if communicator.rank != root:
        communicator.gatherv(mine, counts, root)
        return None
    everyone = bytearray(sum(counts))
    communicator.gatherv(mine, counts, root, out=everyone)
    return _split(everyone, counts)


def broadcast(communicator: Any, value: Any, root: int) -> Any:
    packed = pack(value) if communicator.rank == root else bytearray()
    count = communicator.broadcast(len(packed), root)
    if communicator.rank == root:
        communicator.broadcast(packed, root)
        return value
    packed = bytearray(count)
    communicator.broadcast(packed, root)
    return unpack(memoryview(packed))


def scatter(communicator: Any, values: Sequence[Any] | None, root: int) -> Any:
    here = communicator.rank == root
    packed = [pack(one) for one in values or ()] if here else []
    wrong = here and len(packed) != communicator.size
    if communicator.broadcast(int(wrong), root):  # so that no rank waits for a root that has raised
        raise ValueError(f"scatter_object wants one value for each of {communicator.size} ranks at rank {root}")
    lengths = b"".join(_LENGTH.pack(len(one)) for one in packed)
    mine = bytearray(8)
    communicator.scatter(lengths if here else None, root, out=mine)
    value = bytearray(_LENGTH.unpack(mine)[0])
    communicator.scatterv(b"".join(packed) if here else None, [len(one) for one in packed] if here else None, root, out=value)
    return unpack(memoryview(value))


def send(communicator: Any, value: Any, to: int, tag: int) -> None:
    packed = pack(value)
    communicator.send(_LENGTH.pack(len(packed)), to, tag)
    communicator.send(packed, to, tag)


def recv(communicator: Any, source: int, tag: int) -> Any:
    length = bytearray(8)
    communicator.recv(length, source, tag)
    packed = bytearray(_LENGTH.unpack(length)[0])
    communicator.recv(packed, source, tag)
    return unpack(memoryview(packed))
