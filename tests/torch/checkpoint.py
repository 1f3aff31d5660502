"""Weights that tutti train saved, read by the Python package safetensors: names, shapes, and a network that PyTorch builds of
them, which has the held-out loss and accuracy that the run reported. Arguments: the program tutti."""

import csv
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

try:
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError:
    print("skipped: this Python has no safetensors (pip install safetensors)")
    sys.exit(77)

SHAPES = [(16, 12), (8, 16), (3, 8)]


def digits(count, generator):
    """Samples of three classes, each around a point of its own."""
    labels = generator.integers(0, 3, count)
    centres = numpy.random.default_rng(1).normal(size=(3, 12))
    return (centres[labels] + 1.2 * generator.normal(size=(count, 12))).astype(numpy.float32), labels.astype(numpy.int64)


def main():
    tutti = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        generator = numpy.random.default_rng(7)
        files = []
        for part, count in (("train", 240), ("test", 90)):
            for kind, array in zip("xy", digits(count, generator)):
                files.append(f"{part}_{kind}.npy")
                numpy.save(folder / files[-1], array)
        done = subprocess.run([tutti, "train", "-np", "2", "model=mlp", "hidden=16,8", f"data=npy:{','.join(files)}",
                               "batch.global=24", "epochs=10", "lr=0.05", "run=run"], cwd=folder, capture_output=True, text=True, timeout=100)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        saved = folder / "run/checkpoints/last/model.safetensors"
        weights = load_file(saved)
        with safe_open(saved, framework="np") as file:
            assert sorted(file.keys()) == sorted(weights), "the two readers see other tensors"
            for key, tensor in weights.items():
                assert numpy.array_equal(file.get_tensor(key), tensor.numpy()), key
        with open(folder / "run/metrics.csv", encoding="utf-8", newline="") as lines:
            reported = list(csv.DictReader(lines))[-1]

        layers = sorted({key.rsplit(".", 1)[0] for key in weights})
        assert [tuple(weights[f"{layer}.weight"].shape) for layer in layers] == SHAPES, {k: v.shape for k, v in weights.items()}
        values = torch.from_numpy(numpy.load(folder / "test_x.npy"))
        labels = torch.from_numpy(numpy.load(folder / "test_y.npy"))
        for layer in layers:
            values = torch.nn.functional.linear(values if layer == layers[0] else values.relu(), weights[f"{layer}.weight"], weights[f"{layer}.bias"])
        loss = torch.nn.functional.cross_entropy(values, labels).item()
        accuracy = (values.argmax(1) == labels).double().mean().item()
        print(f"loss {loss:.6f}, accuracy {accuracy:.4f}; the run reported {reported}")
        assert abs(loss - float(reported["held_out_loss"])) < 1e-5 and abs(accuracy - float(reported["accuracy"])) < 1e-6


main()
