"""What tests of `tutti train` have in common; the first argument is the folder of the programs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")} | {"OMP_NUM_THREADS": "1"}
TINY = ["model=mlp", "hidden=8", "data=random:1x4x4", "random_samples=40", "epochs=1", "progress=off", "run=none"]


def command(*words, cwd=None, env=CLEAN):
    return subprocess.run([BIN / "tutti", *map(str, words)], capture_output=True, text=True, timeout=150, env=env, cwd=cwd)


def train(ranks, *words, code=0, cwd=None):
    done = command("run", "-np", ranks, BIN / "tutti", "train", *words, cwd=cwd)
    if done.returncode != code:
        raise AssertionError(f"{ranks} x tutti train {' '.join(map(str, words))}: exit code {done.returncode}, not {code}\n"
                             f"{done.stdout}{done.stderr}")
    return done


def state_of(checkpoint):
    """The state in a checkpoint, with the lists that are in the history beside it."""
    state = json.loads((checkpoint / "state.json").read_text())
    past = state.pop("history")
    lines = (checkpoint.resolve().parent / past["file"]).read_bytes()[:past["bytes"]].decode().splitlines()
    records = [json.loads(line) for line in lines]
    state["losses"] = [loss for each in records for loss in each.get("losses", [])]
    for name in ("epoch", "validation"):
        state[f"{name}s"] = [each[name] for each in records if name in each]
    assert [len(state[name]) for name in ("losses", "epochs", "validations")] == [past[name] for name in ("losses", "epochs", "validations")]
    return state


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
