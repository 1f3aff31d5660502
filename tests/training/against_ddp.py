"""Beside PyTorch's DistributedDataParallel over Gloo."""

import pathlib
import re
import statistics
import subprocess
import time

from setup import Folder, Skipped, Table, metrics

PEER = pathlib.Path(__file__).resolve().parent / "ddp_peer.py"
SGD = ["optimizer=momentum", "lr=0.01", "schedule=constant", "warmup=0"]

# Name; our words; the peer's model, samples, global batch and epochs, of which the last one counts; goals of the ratio by processes.
MODELS = [
    ("lenet", ["model=lenet", "data=random:1x8x8", "data.samples=4096", "batch.global=64", "epochs=3", *SGD], ["lenet", 4096, 64, 3],
     {2: 1.9, 4: 2.5}),
    ("resnet18 at 32x32", ["model=resnet18", "data=random:3x32x32", "data.samples=256", "batch.global=64", "epochs=2", *SGD],
     ["resnet18", 256, 64, 2], {2: 1.05, 4: 1.05}),
    ("gpt of 0.8 M parameters", ["--config", "gpt-text", "epochs=1", "steps=40"], ["gpt", 640, 16, 1], {2: 1.05, 4: 1.05}),
]


def ours(setup, ranks, words, folder):
    setup.train(ranks, *words, "run=run", cwd=folder, program=setup.tutti_of_torch)
    return float(metrics(folder / "run")[-1]["samples_per_second"])


def ddp(setup, ranks, words):
    done = subprocess.run([setup.torchrun, "--standalone", f"--nproc-per-node={ranks}", PEER, *map(str, words)],
                          capture_output=True, text=True, env=setup.environment, timeout=1800, check=False)
    found = re.search(r"samples/s ([0-9.]+)", done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f"ddp: {done.stdout}{done.stderr}")
    return float(found[1])


def seconds_of_one_step(setup, ranks):
    """From the command to its end, with one step of lenet: ours and torchrun's."""
    begin = time.monotonic()
    setup.train(ranks, *MODELS[0][1], "steps=1", program=setup.tutti_of_torch)
    between = time.monotonic()
    ddp(setup, ranks, ["lenet", 64, 64, 1])
    return between - begin, time.monotonic() - between


def compare(setup):
    if not setup.torchrun.exists() or not setup.tutti_of_torch.exists():
        raise Skipped("wants --torch, an environment with torch and numpy, and --torch-build, tutti built with its LibTorch")
    table = Table("Beside DistributedDataParallel over Gloo", "what", "processes", "DDP", "tutti", "ratio", "goal")
    for name, words, peer, goals in MODELS:
        for ranks, goal in goals.items():
            pairs = []
            for _ in range(setup.rounds):
                with Folder() as folder:
                    pairs.append((ddp(setup, ranks, peer), ours(setup, ranks, words, folder)))
            ratio = statistics.median(b / a for a, b in pairs)
            medians = (f"{statistics.median(each):.0f} samples/s" for each in zip(*pairs))
            table.add(name, ranks, *medians, f"{ratio:.2f}", goal, ok=ratio >= goal)
    pairs = [seconds_of_one_step(setup, 4) for _ in range(setup.rounds)]
    own, peers = (statistics.median(each) for each in zip(*pairs))
    table.add("from the command to its end, one step of lenet", 4, f"{peers:.1f} s", f"{own:.2f} s", f"{peers / own:.1f}", "1.5 s",
              ok=own <= 1.5)
    return table
