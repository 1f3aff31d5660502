"""Weights between tutti train and PyTorch: the lines of Python in the book, and networks whose tensors have the names that
torchvision gives them, in both directions. Arguments: the program tutti, and the book's chapter."""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import torch
from torch import nn

try:
    from safetensors.torch import load_file, save_file
except ImportError:
    print("skipped: this Python has no safetensors (pip install safetensors)")
    sys.exit(77)


class Block(nn.Module):
    """A basic residual block, with torchvision's names."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet18(classes):
    """ResNet-18 for images of 64 pixels and more, with torchvision's names."""
    layers = collections.OrderedDict(conv1=nn.Conv2d(3, 64, 7, 2, 3, bias=False), bn1=nn.BatchNorm2d(64), relu=nn.ReLU(),
                                     maxpool=nn.MaxPool2d(3, 2, 1))
    width = 64
    for i in range(4):
        layers[f"layer{i + 1}"] = nn.Sequential(Block(width, 64 << i, 1 if i == 0 else 2), Block(64 << i, 64 << i, 1))
        width = 64 << i
    layers |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "fc": nn.Linear(512, classes)}
    return nn.Sequential(layers)


def vgg16(classes):
    """VGG-16 without normalisation for images of 32 pixels, which leave one pixel to the classifier; torchvision's names."""
    layers, width = [], 3
    for channels, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(width, channels, 3, padding=1), nn.ReLU()]
            width = channels
        layers.append(nn.MaxPool2d(2))
    classifier = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, classes))
    return nn.Sequential(collections.OrderedDict(features=nn.Sequential(*layers), flatten=nn.Flatten(), classifier=classifier))


class Folder:
    def __init__(self, tutti, folder, side, channels):
        self.program, self.folder = tutti, folder
        generator = numpy.random.default_rng(3)
        self.files = []
        for part, count in (("train", 12), ("test", 5)):
            for kind, array in (("x", generator.standard_normal((count, channels, side, side)).astype("f4")), ("y", generator.integers(0, 10, count))):
                self.files.append(f"{part}_{kind}.npy")
                numpy.save(folder / self.files[-1], array)
        self.images = torch.from_numpy(numpy.load(folder / "test_x.npy"))

    def tutti(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=100, cwd=self.folder)
        if done.returncode != 0:
            raise AssertionError(f"tutti {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def train(self, *words):
        return self.tutti("train", f"data=npy:{','.join(self.files)},classes=10", "batch=4", "epochs=1", "progress=off", *words)

    def outputs(self, run):
        self.tutti("train", "--predict", run, "--to", "outputs.safetensors")
        return load_file(self.folder / "outputs.safetensors")["outputs"]

    def compare(self, network, run):
        network.eval()
        with torch.no_grad():
            worst = (network(self.images) - self.outputs(run)).abs().max().item()
        print(f"{run}: outputs differ by {worst:.2g} at most")
        assert worst < 1e-5, worst


def of_the_book(tutti, chapter, folder):
    code = next(block for block in re.findall(r"```python\n(.*?)```", chapter.read_text(), re.S) if "load_state_dict" in block)
    here = Folder(tutti, folder, 8, 1)
    here.train("model=lenet", "run=runs/digits")
    names = {}
    exec(code.replace('"runs/', f'"{folder}/runs/'), names)  # pylint: disable=exec-used
    here.compare(names["lenet"], "runs/digits")


def as_torchvision(tutti, folder, make, side, *words):
    here, given = Folder(tutti, folder, side, 3), make(10)
    run = make.__name__
    save_file(given.state_dict(), folder / "given.safetensors")
    said = here.train(f"model={run}", *words, f"run={run}", "model.from=given.safetensors", "lr=0.000001")
    assert f"{len(given.state_dict())} tensors are from given.safetensors" in said, said
    here.tutti("checkpoint", "export", run, "--names", "torchvision", "--to", "back.safetensors")
    back = make(10)
    back.load_state_dict(load_file(folder / "back.safetensors"), strict=True)
    here.compare(back, run)


def main():
    tutti, chapter = sys.argv[1], pathlib.Path(sys.argv[2])
    for test in (lambda folder: of_the_book(tutti, chapter, folder), lambda folder: as_torchvision(tutti, folder, resnet18, 64),
                 lambda folder: as_torchvision(tutti, folder, vgg16, 32, "model.hidden=64")):
        with tempfile.TemporaryDirectory() as name:
            test(pathlib.Path(name))


if __name__ == "__main__":
    main()
