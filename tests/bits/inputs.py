"""Small data sets and networks for the runs, the same each time. Plain files are written here; HDF5 by `tutti data`."""

import gzip
import json
import random
import struct
import subprocess
import zlib

NET = """- conv: {filters: 3, kernel: 3, padding: same}
- batchnorm
- relu
- maxpool: 2
- dropout: 0.1
- flatten
- linear: 9
- tanh
- linear: classes
"""
DENSE = """- linear: 7
- tanh
- linear: classes
"""
LOGITS = """- linear: 7
- relu
- linear: 1
"""
KERAS = {"class_name": "Sequential", "keras_version": "2.1.3", "backend": "tensorflow", "config": [
    {"class_name": "Conv2D", "config": {
        "batch_input_shape": [None, 8, 8, 1], "filters": 4, "kernel_size": [3, 3], "strides": [1, 1], "padding": "same",
        "data_format": "channels_last", "dilation_rate": [1, 1], "activation": "relu", "use_bias": True}},
    {"class_name": "BatchNormalization", "config": {"axis": -1, "momentum": 0.99, "epsilon": 0.001}},
    {"class_name": "Activation", "config": {"activation": "elu"}},
    {"class_name": "MaxPooling2D", "config": {"pool_size": [2, 2], "padding": "valid", "strides": [2, 2]}},
    {"class_name": "Dropout", "config": {"rate": 0.25, "noise_shape": None}},
    {"class_name": "Flatten", "config": {}},
    {"class_name": "Dense", "config": {"units": 12, "activation": "relu", "use_bias": True}},
    {"class_name": "Dense", "config": {"units": 10, "activation": "softmax", "use_bias": True}}]}


def write_all(folder, tutti, environment):
    """Fills `folder`. Returns what could not be made, by the name of the folder or file that is missing."""
    draw = random.Random(5)
    for name, text in {"net.yaml": NET, "dense.yaml": DENSE, "logits.yaml": LOGITS, "keras.json": json.dumps(KERAS),
                       "probabilities.yaml": LOGITS + "- sigmoid\n", "scores.yaml": DENSE.replace("classes", "5")}.items():
        (folder / name).write_text(text)
    write_tables(folder, draw)
    write_images(folder, draw)
    text = folder / "text"
    text.mkdir()
    for name in ("a", "b", "c"):
        (text / f"{name}.txt").write_text("".join(f"word {name}{i * i % 97}; " for i in range(90)))
    return write_digits(folder, draw, tutti, environment)


def write_tables(folder, draw):
    for name, count in (("train", 60), ("test", 20)):
        rows = [[round(draw.uniform(-1, 1), 4) for _ in range(6)] for _ in range(count)]
        classes = [sum(row[:3]) > 0 for row in rows]
        lines = [",".join(map(str, [*row, int(label)])) for row, label in zip(rows, classes)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        write_npy(folder / f"{name}_x.npy", "<f4", (count, 6), struct.pack(f"<{6 * count}f", *sum(rows, [])))
        write_npy(folder / f"{name}_y.npy", "<i8", (count,), struct.pack(f"<{count}q", *classes))


def write_npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_images(folder, draw):
    """CIFAR-10's and CIFAR-100's binary files, MNIST's IDX files, and PNG files in a folder for each class."""
    for name in ("cifar10", "cifar100", "idx"):
        (folder / name).mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        (folder / "cifar10" / name).write_bytes(b"".join(bytes([i % 10]) + draw.randbytes(3072) for i in range(8)))
    for name in ("train.bin", "test.bin"):
        (folder / "cifar100" / name).write_bytes(b"".join(bytes([i % 20, i % 100]) + draw.randbytes(3072) for i in range(24)))
    for name, count in (("train", 60), ("t10k", 20)):
        (folder / "idx" / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 8, 8) + draw.randbytes(64 * count))
        (folder / "idx" / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + bytes(i % 10 for i in range(count)))
    for part, count in (("train", 10), ("test", 4)):
        for label in ("cat", "dog", "owl"):
            place = folder / "images" / part / label
            place.mkdir(parents=True)
            for i in range(count):
                write_png(place / f"{i:02}.png", 9, 8, draw)


def write_png(path, height, width, draw):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = b"".join(b"\0" + draw.randbytes(3 * width) for _ in range(height))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def write_digits(folder, draw, tutti, environment):
    """Lists of HDF5 files as mpi_learn has them, of digits that were drawn at random."""
    rows = [",".join([*(str(draw.randrange(17)) for _ in range(64)), str(i % 10)]) for i in range(120)]
    (folder / "digits.csv.gz").write_bytes(gzip.compress(("\n".join(rows) + "\n").encode(), mtime=0))
    done = subprocess.run([tutti, "data", "optdigits", "hdf5", "--from", "digits.csv.gz", "--format", "hdf5"], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=60)
    return {} if done.returncode == 0 else {"data/hdf5": done.stderr.strip()}
