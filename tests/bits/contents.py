"""What a training run leaves behind, read so that two runs can be compared: where they differ, and by how much."""

import array
import csv
import io
import json
import math
import os
import struct

# Files that are not compared, each with the reason.
LEFT_OUT = {
    "config.yaml": "it states the words of the command line",
    "environment.txt": "it names the host and its system",
    "waiting.csv": "it has times alone",
    "trace.json": "it has times alone",
    "manifest.json": "it has checksums of files that are compared by themselves, and of state.json, which has times",
}
LEFT_OUT_PREFIX = "events.out"  # TensorBoard's file repeats metrics.csv, with times
TIMES = {"samples_per_second", "seconds", "compute", "communication", "waiting", "load", "other", "late_rank", "waited_for_it"}
EPOCH_TIMES = ("samples_per_second", "phases", "waited_for")


def is_compared(name):
    return name not in LEFT_OUT and not name.startswith(LEFT_OUT_PREFIX)


def listed(folder):
    """Paths of the files and links in a folder that are compared, relative to it."""
    found = set()
    for top, folders, files in os.walk(folder):
        links = [each for each in folders if os.path.islink(os.path.join(top, each))]
        found |= {os.path.relpath(os.path.join(top, each), folder) for each in [*files, *links] if is_compared(each)}
    return found


def difference(path, before, after, without=frozenset()):
    """How the file `path` of two folders differs, but for the tensors `without`; empty where it does not."""
    one, other = os.path.join(before, path), os.path.join(after, path)
    if os.path.islink(one) or os.path.islink(other):  # checkpoints/best and checkpoints/last
        leads = [os.readlink(each) if os.path.islink(each) else "no link" for each in (one, other)]
        return "" if leads[0] == leads[1] else f"leads to {leads[0]}, then to {leads[1]}"
    a, b = read(one), read(other)
    if a == b:
        return ""
    if path.endswith(".safetensors"):
        return tensors_differ(Tensors(a, without), Tensors(b, without))
    if path.endswith("state.json"):
        return values_differ(state(a), state(b))
    if path.endswith(".jsonl") and os.path.basename(path).startswith("history"):
        return values_differ(past(a), past(b))
    if path.endswith("history.json"):
        return values_differ(history(a), history(b))
    if path.endswith(".csv"):
        return values_differ(columns(a), columns(b))
    return "the bytes differ"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def without_times(epoch):
    for name in EPOCH_TIMES:
        epoch.pop(name, None)


def state(text):
    """All of state.json but the times of epochs, and the length and the checksum of the history, which has them."""
    found = json.loads(text)
    for epoch in found.get("epochs", []):
        without_times(epoch)
    for name in ("bytes", "crc32"):
        found.get("history", {}).pop(name, None)
    return found


def past(text):
    """The records of a history but the times of epochs."""
    found = [json.loads(line) for line in text.decode().splitlines()]
    for record in found:
        without_times(record.get("epoch", {}))
    return found


def history(text):
    """Of history.json what was exchanged; the rest is metrics.csv, the configuration and times."""
    found = json.loads(text)
    return {name: found.get(name) for name in ("exchanges", "exchanged_bytes")}


def columns(text):
    """A table's columns but those with times, as text."""
    rows = list(csv.reader(io.StringIO(text.decode())))
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0] if rows else []) if name not in TIMES}


def values_differ(a, b):
    """Where two values of JSON differ first, in how many places, and by how much at most."""
    found = list(places(a, b, ""))
    if not found:
        return ""
    where, one, other = found[0]
    largest = max((relative(x, y) for _, x, y in found), default=0)
    much = f", at most by {largest:.2g} of the value" if largest > 0 else ""
    return f"{where.lstrip('.')}: {shown(one)}, then {shown(other)}; {len(found)} in all{much}"


def shown(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def places(a, b, where):
    """(where, one, other) of all leaves that differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for name in [*a, *(each for each in b if each not in a)]:
            yield from places(a.get(name), b.get(name), f"{where}.{name}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (one, other) in enumerate(zip(a, b)):
            yield from places(one, other, f"{where}[{i}]")
    elif type(a) is not type(b) or a != b and not (a != a and b != b):
        yield where, a, b


def relative(a, b):
    try:
        a, b = float(a), float(b)
    except (TypeError, ValueError):
        return 0
    largest = max(abs(a), abs(b))
    return abs(a - b) / largest if largest > 0 and math.isfinite(a) and math.isfinite(b) else 0


# The code of an unsigned integer as wide as a float of SafeTensors, and the float's bits.
FLOATS = {"F64": ("Q", 64), "F32": ("I", 32), "F16": ("H", 16), "BF16": ("H", 16)}


class Tensors:
    """A SafeTensors file: the header, and the bytes of each tensor."""

    def __init__(self, data, without=frozenset()):
        size, = struct.unpack_from("<Q", data)
        whole = json.loads(data[8:8 + size])
        self.is_cut = not without.isdisjoint(whole)
        self.header = {name: each for name, each in whole.items() if name not in without}
        self.metadata = self.header.pop("__metadata__", {})
        self.metadata.pop("crc32", None)  # of the tensors, which are compared themselves
        start = 8 + size
        self.bytes = {name: data[start + each["data_offsets"][0]:start + each["data_offsets"][1]] for name, each in self.header.items()}

    def form(self, name):
        each = self.header.get(name)
        return f"{each['dtype']} {each['shape']}" if each else "no such tensor"


def tensors_differ(a, b):
    """Which tensors differ, and the largest difference of one in ulps."""
    found, most = [], (-1, "")
    for name in sorted(a.header.keys() | b.header.keys()):
        if a.form(name) != b.form(name):
            return f"{name}: {a.form(name)}, then {b.form(name)}"
        if a.bytes[name] != b.bytes[name]:
            found.append(name)
            most = max(most, bits_differ(a.header[name]["dtype"], a.bytes[name], b.bytes[name]))
    if found:
        return f"{len(found)} of {len(a.header)} tensors, first {found[0]}; {most[1]}"
    if a.metadata != b.metadata:
        return "metadata: " + values_differ(a.metadata, b.metadata)
    if a.is_cut and list(a.header) == list(b.header):
        return ""
    return "the tensors are equal, but not the order or the form of the header"


def bits_differ(dtype, a, b):
    """(ulps, text) of the largest difference; of what is no float, the number of bytes that differ."""
    if dtype not in FLOATS:
        count = sum(x != y for x, y in zip(a, b))
        return 0, f"{count} bytes of {len(a)} differ, {dtype}"
    code, bits = FLOATS[dtype]
    pairs = [(ordered(x, bits), ordered(y, bits)) for x, y in zip(array.array(code, a), array.array(code, b)) if x != y]
    ulps = max(abs(x - y) for x, y in pairs)
    return ulps, f"at most {ulps} ulps, {dtype}, in {len(pairs)} of {len(a) * 8 // bits} values"


def ordered(pattern, bits):
    """A float's place among all floats of its width, with both zeros at 0."""
    sign = 1 << (bits - 1)
    return -(pattern - sign) if pattern & sign else pattern
