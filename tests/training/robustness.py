"""Kills, mistakes, and what checkpoints cost."""

import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import time

from setup import Folder, Table, metrics

KILLED = ["model=lenet", "data=random:1x8x8", "data.samples=2000", "data.shift=1", "epochs=6", "batch.global=40", "optimizer=adam",
          "checkpoint.every_steps=7", "checkpoint.keep=0", "progress=off"]
HISTORIES = 20


def last_weights(run):
    return (run / "checkpoints/last/model.safetensors").read_bytes()


def ranks_of(launcher):
    """The processes that a launcher has started."""
    return [int(pid) for pid in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


def kill_once(setup, folder, run, wait, one_rank):
    """Starts a run, and kills it some time after its first checkpoint: all of it, or one rank. True if it was still going."""
    process = subprocess.Popen([setup.tutti, "train", "-np", "2", *KILLED, f"run={run}"], env=setup.environment, cwd=folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not list((folder / run / "checkpoints").glob("step-*")):
        time.sleep(0.005)
    time.sleep(wait)
    going = process.poll() is None
    if going and one_rank:
        os.kill(ranks_of(process.pid)[-1], signal.SIGKILL)
    elif going:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return going


def kills(setup):
    table = Table("Killed and resumed", "what", "goal", "seen")
    chance = random.Random(20)
    equal = killed = 0
    with Folder() as folder:
        begin = time.monotonic()
        setup.train(2, *KILLED, "run=whole", cwd=folder)
        whole, expected = time.monotonic() - begin, last_weights(folder / "whole")
        for history in range(HISTORIES):
            run = f"killed{history}"
            killed += kill_once(setup, folder, run, chance.uniform(0, 0.6 * whole), history % 2 == 0)
            setup.train(2, *KILLED, f"run={run}", "--resume", cwd=folder)
            equal += last_weights(folder / run) == expected
    table.add("runs killed at a random time", HISTORIES, killed, ok=killed > HISTORIES / 2)
    table.add("final weights bit-equal to those of an uninterrupted run", f"{HISTORIES} of {HISTORIES}", equal, ok=equal == HISTORIES)
    return table


def ends(setup, folder, words, ranks):
    """Runs what has to fail: what was said of it, and the seconds from the first word of that to the end of all."""
    process = subprocess.Popen([setup.tutti, "train", "-np", str(ranks), *words, "progress=off"], env=setup.environment, cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = [process.stderr.readline()]
    begin = time.monotonic()
    said += process.stderr.readlines()
    process.stdout.read()
    process.wait()
    of_ranks = [line for line in said if line.strip() and not line.startswith("tutti run: ")]  # who says which ranks ended
    return process.returncode, of_ranks, time.monotonic() - begin


def bad_inputs(folder):
    """Name, configuration and what the message has to say."""
    good = "".join(f"{i},{2 * i},{i % 3}\n" for i in range(60))
    (folder / "negative.csv").write_text("x,y,label\n" + good.replace("5,10,2", "5,10,-2"))
    (folder / "broken.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(200))
    (folder / "broken.txt").write_text("broken.h5\n")
    (folder / "missing.txt").write_text("nowhere.h5\n")
    tiny = ["model=mlp", "epochs=2"]
    return [
        ("a damaged HDF5 file", [*tiny, "data=hdf5:broken.txt,broken.txt"], r"broken\.h5"),
        ("a file of a list that is not there", [*tiny, "data=hdf5:missing.txt,missing.txt"], r"nowhere\.h5"),
        ("a label out of range", [*tiny, "data=csv:negative.csv"], r"-2"),
        ("a loss that is not a number", [*tiny, "data=random:1x8x8", "lr=1e38", "dtype=float32"], r"optimizer\.lr"),
        ("more processes than samples in a batch", [*tiny, "data=random:1x8x8", "batch.global=2"], r"batch"),
        ("a key that does not exist", [*tiny, "data=random:1x8x8", "epoch=3"], r"epochs"),
    ]


def mistakes(setup):
    table = Table("Mistakes", "what", "exit code", "messages", "seconds from message to end", "the message")
    with Folder() as folder:
        cases = bad_inputs(folder)
        disk = folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", disk], check=False, capture_output=True).returncode == 0:
            cases.append(("a full disk during a checkpoint", ["model=mlp", "model.hidden=512", "data=random:1x8x8", "epochs=3",
                                                              f"run={disk}/run", "checkpoint.every_steps=5"], r"No space left|space"))
        try:
            for name, words, wanted in cases:
                code, said, seconds = ends(setup, folder, words, 4)
                fine = code != 0 and len(said) == 1 and re.search(wanted, said[0]) and seconds < 1
                message = said[0].strip().replace(str(folder), "...") if said else ""
                table.add(name, code, len(said), f"{seconds:.2f}", message, ok=fine)
        finally:
            subprocess.run(["umount", disk], check=False, capture_output=True)
    return table


def checkpoints(setup):
    words = ["model=resnet18", "data=random:3x32x32", "data.samples=640", "batch.global=64", "epochs=2"]
    table = Table("What checkpoints cost", "run", "every", "seconds without", "seconds with", "cost", "goal")
    for every in (5, 10):
        without, kept = [], []
        for _ in range(setup.rounds):
            with Folder() as folder:
                setup.train(2, *words, "run=without", cwd=folder)
                setup.train(2, *words, "run=kept", f"checkpoint.every_steps={every}", cwd=folder)
                for found, run in ((without, "without"), (kept, "kept")):
                    found.append(640 / float(metrics(folder / run)[-1]["samples_per_second"]))
        cost = statistics.median(b / a - 1 for a, b in zip(without, kept))
        table.add("resnet18, 90 MB a checkpoint, 2 processes", f"{every} steps", f"{statistics.median(without):.2f}",
                  f"{statistics.median(kept):.2f}", f"{100 * cost:.1f} %", "2 %", ok=cost <= 0.02)
    return table
