"""`tutti train --resume`: what is in the folder is enough, keys that are given override it, and what is printed can be pasted."""

import json
import os
import re
import shutil
import subprocess
import unittest

from training import BIN, CLEAN, InFolder, command, state_of

WORDS = ["model=mlp", "hidden=8", "data=random:1x4x4", "random_samples=40", "epochs=2", "batch=8", "progress=off", "dtype=float64",
         "optimizer=adam", "lr=0.01", "schedule=constant"]


class Runs(InFolder):
    def train(self, *words, code=0):
        done = command("train", *words, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def state(self, run):
        return state_of(self.folder / run / "checkpoints/last")

    def refused(self, *words):
        said = self.train(*words, code=2)
        self.assertEqual(said.count("\n"), 1, said)
        return said


class Resume(Runs):
    def next_of(self, text):
        return re.search(r"(?m)^next +(.+)$", text)[1]

    def shell(self, line):
        path = f"{BIN}{os.pathsep}{CLEAN['PATH']}"
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=150, env={**CLEAN, "PATH": path}, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_the_folder_is_enough(self):
        whole = self.train("-np", 3, *WORDS, "epochs=4", "run=whole")
        self.assertIn("3 ranks", whole)
        for run, words in (("a", ["--resume", "a"]), ("b", ["run=b", "--resume"]), ("c", ["--resume=c"]), ("d", ["--run", "d", "resume=true"]),
                           ("e", ["--resume", "run=e"])):
            self.train("-np", 3, *WORDS, f"run={run}")
            said = self.train(*words, "epochs=4")
            self.assertIn(f"resuming {run}/checkpoints/step-10, after step 10 in epoch 3", said)
            self.assertIn("; 3 ranks, global batch 8, optimizer adam", said)
            self.assertEqual(self.state(run)["losses"], self.state("whole")["losses"], run)

    def test_keys_override_what_is_in_the_folder(self):
        self.train("-np", 2, *WORDS, "run=mine", "weight_decay=0.1")
        said = self.train("-np", 1, "--resume", "mine", "epochs=3", "lr=0.5", "--schedule", "step")
        self.assertIn("; 1 rank, global batch 8", said)
        text = (self.folder / "mine/config.yaml").read_text()
        for line in (r"epochs: 3 +# the command line", r"  lr: 0\.5 +# the command line", r"  weight_decay: 0\.1 +# the command line",
                     r"  name: step +# --schedule", r"dtype: float64 +# the command line", r"run: mine +# --resume", r"seed: 1 +# default"):
            self.assertRegex(text, rf"(?m)^{line}$")
        (self.folder / "other.yaml").write_text("epochs: 5\n")
        self.assertIn("after step 15", self.train("--config", "other.yaml", "--resume", "mine"))
        self.assertRegex((self.folder / "mine/config.yaml").read_text(), r"(?m)^epochs: 5 +# other\.yaml:1$")

    def test_the_printed_line_can_be_pasted(self):
        for run in ("plain", "with blank", "it's \"quoted\" $HOME; `x`", "runs/deep/er", "-dash", "a=b"):
            said = self.train("-np", 2, *WORDS, f"run={run}")
            line = self.next_of(said)
            self.assertRegex(line, r"^tutti plot .*; tutti train -np 2 --resume .* epochs=4$")
            self.assertNotIn("...", line)
            before = set(os.listdir(self.folder))
            said = self.shell(line)
            self.assertIn("after step 10 in epoch 3", said)
            self.assertEqual(self.state(run)["step"], 20)
            self.assertEqual(set(os.listdir(self.folder)), before)
            self.assertIn("after step 20 in epoch 5", self.shell(self.next_of(said)))
        alone = self.train(*WORDS, "run=alone")
        self.assertTrue(self.next_of(alone).endswith("; tutti train --resume alone epochs=4"), alone)

    def test_it_goes_on_where_something_else_ended_the_run(self):
        said = self.train("-np", 2, *WORDS, "run=steps", "steps=7")
        self.assertIn("after step 7 ", self.shell(self.next_of(said)))
        self.assertEqual(self.state("steps")["step"], 14)
        said = self.train("-np", 2, *WORDS, "run=target", "epochs=5", "target=0.001", "validate.every_steps=3")
        self.assertIn("ended early", said)
        self.shell(self.next_of(said))
        self.assertEqual(self.state("target")["step"], 50)
        said = self.train("-np", 2, *WORDS, "run=patience", "epochs=30", "lr=0", "patience=2")
        self.assertIn("ended early", said)
        self.assertEqual(self.state("patience")["step"], 15)
        self.shell(self.next_of(said))  # which is as patient as a new run
        self.assertEqual(self.state("patience")["step"], 25)

    def test_masters_too(self):
        said = self.train("-np", 3, *WORDS, "masters=1", "strategy=downpour", "run=served")
        line = self.next_of(said)
        self.assertTrue(line.endswith("; tutti train -np 3 --resume served epochs=4"), line)
        self.assertIn("resuming served/checkpoints/step-", self.shell(line))
        self.assertIn("resuming served/checkpoints/step-", self.train("--resume", "served", "epochs=6"))

    def test_one_line_says_why_it_cannot_go_on(self):
        self.assertIn("--resume nowhere: there is no such folder", self.refused("--resume", "nowhere"))
        (self.folder / "an empty one").mkdir()
        self.assertIn("--resume 'an empty one': there is no run in it, as it has no config.yaml", self.refused("--resume", "an empty one"))
        self.assertIn("run=an empty one has no checkpoint to go on from, and no config.yaml", self.refused("run=an empty one", "--resume"))
        self.assertIn("which run is to be resumed? Say --resume DIR", self.refused("--resume"))
        self.assertIn("are two folders; leave one out", self.refused("--resume", "done", "run=other"))
        self.assertIn("no config key 'epoch'; did you mean 'epochs'?", self.refused("--resume", "epoch=3", "run=done"))

    def test_one_command_begins_and_goes_on(self):
        words = ["-np", 2, *WORDS, "run=both", "--resume"]
        self.assertIn("nothing to resume in run=both: beginning", self.train(*words))
        self.assertIn("resuming both/checkpoints/step-10", self.train(*words))

    def test_a_run_without_a_checkpoint_begins_anew(self):
        self.train("-np", 2, *WORDS, "run=whole")
        for words in (["--resume", "early"], ["-np", 2, *WORDS, "run=early", "--resume"]):
            self.train("-np", 2, *WORDS, "run=early", "checkpoint.at_end=false")
            self.assertIn("nothing to resume in run=early: beginning", self.train(*words, "checkpoint.at_end=true"))
            self.assertEqual(self.state("early")["losses"], self.state("whole")["losses"])
            shutil.rmtree(self.folder / "early")


def flip(file, at):
    """Flips a bit of the byte `at`, counted from the end if it is negative."""
    whole = bytearray(file.read_bytes())
    whole[at] ^= 4
    file.write_bytes(whole)


def cut(file, part):
    os.truncate(file, int(file.stat().st_size * part))


def link(path, elsewhere):
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def replace_by_folder(file):
    file.unlink()
    file.mkdir()


def change_number(folder):
    """A checkpoint of an earlier version, which has no checksums, and a state that cannot be."""
    state = json.loads((folder / "state.json").read_text())
    state["ranks"] = 0
    state.pop("manifest", None)
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "manifest.json").unlink()


DAMAGES = {
    "an empty model": lambda at: cut(at / "model.safetensors", 0),
    "half a model": lambda at: cut(at / "model.safetensors", 0.5),
    "no model": lambda at: (at / "model.safetensors").unlink(),
    "a folder for a model": lambda at: replace_by_folder(at / "model.safetensors"),
    "a link for a model": lambda at: link(at / "model.safetensors", at.parent / "moved"),
    "a bit of a tensor": lambda at: flip(at / "model.safetensors", -3),
    "a bit of a header": lambda at: flip(at / "model.safetensors", 20),
    "a bit of the optimizer": lambda at: flip(next(at.glob("optimizer*.safetensors")), -3),
    "half a state": lambda at: cut(at / "state.json", 0.5),
    "an empty state": lambda at: cut(at / "state.json", 0),
    "no state": lambda at: (at / "state.json").unlink(),
    "a number in the state": change_number,
    "half a manifest": lambda at: cut(at / "manifest.json", 0.5),
    "no manifest": lambda at: (at / "manifest.json").unlink(),
    "an empty folder": lambda at: (shutil.rmtree(at), at.mkdir()),
    "a file for a folder": lambda at: (shutil.rmtree(at), at.write_text("")),
    "a link for a folder": lambda at: link(at, at.parent / "moved"),
}


class Damaged(Runs):
    """The newest of the checkpoints of steps 4, 5 (the best), 8 and 10 is damaged in many ways; the run goes on from the one
    before it."""

    def setUp(self):
        super().setUp()
        words = ["-np", 2, *WORDS, "checkpoint.every_steps=4", "checkpoint.keep=0"]
        self.train(*words, "epochs=4", "run=whole")
        self.train(*words, "run=part")

    def model(self, run):
        return (self.folder / run / "checkpoints/last/model.safetensors").read_bytes()

    def test_each_damage_costs_one_checkpoint(self):
        for name, damage in DAMAGES.items():
            with self.subTest(name):
                run = self.folder / name
                shutil.copytree(self.folder / "part", run, symlinks=True)
                damage(run / "checkpoints/step-10")
                listed = subprocess.run([BIN / "tutti", "checkpoint", "verify", run], capture_output=True, text=True)
                self.assertEqual(listed.returncode, 1, listed.stdout + listed.stderr)
                self.assertEqual(listed.stdout.count(": whole\n"), 3, listed.stdout)
                said = self.train("-np", 2, "--resume", name, "epochs=4")
                self.assertRegex(said, rf"skipping a damaged checkpoint: .*{re.escape(name)}/checkpoints/step-10")
                self.assertIn(f"resuming {name}/checkpoints/step-8, after step 8 in epoch 2", said)
                self.assertEqual(self.state(name)["losses"], self.state("whole")["losses"])
                self.assertEqual(self.model(name), self.model("whole"))
                shutil.rmtree(run)

    def test_one_can_be_named(self):
        self.assertIn("after step 4 ", self.train("-np", 2, "run=part", "checkpoint.resume=step-4", "epochs=4"))
        self.assertEqual(self.model("part"), self.model("whole"))
        said = self.train("-np", 2, "run=part", "checkpoint.resume=step-6", code=2)
        self.assertIn("step-6: is missing; `tutti checkpoint list part/checkpoints` says which are whole", said)

    def test_none_is_whole(self):
        for step in (4, 5, 8, 10):
            cut(self.folder / f"part/checkpoints/step-{step}/state.json", 0.5)
        said = self.train("-np", 2, "--resume", "part", "epochs=4", code=2)
        self.assertRegex(said, r"no checkpoint in part/checkpoints is whole .*step-10/state\.json")

    def test_checksums_can_be_left_out(self):
        flip(self.folder / "part/checkpoints/step-10/model.safetensors", -3)
        self.assertIn("after step 10 ", self.train("-np", 2, "--resume", "part", "epochs=4", "checkpoint.verify=false"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
