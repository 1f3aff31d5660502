"""Checkpoints that ranks write together: shards, states of their own, and what a run says when one of them cannot write."""

import shutil
import subprocess
import unittest

from training import BIN, CLEAN, InFolder, command, state_of

WORDS = ["model=mlp", "hidden=8", "data=random:1x4x4", "random_samples=40", "epochs=2", "batch=8", "progress=off", "dtype=float64",
         "optimizer=adam", "lr=0.01", "schedule=constant"]

class Shards(InFolder):
    """A state that all ranks have, written by all of them."""

    def train(self, *words):
        done = command("train", *words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def losses(self, run):
        return state_of(self.folder / run / "checkpoints/last")["losses"]

    def tensors(self, folder, *words):
        done = command("checkpoint", "export", folder, "--to", "whole.safetensors", *words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "whole.safetensors").read_bytes()

    def test_any_number_of_ranks_goes_on_from_any_number(self):
        words = [*WORDS, "batch=9", "sync.buffers=local", "optimizer.ema=0.9"]
        self.train("-np", 3, *words, "epochs=4", "run=whole")
        self.train("-np", 3, *words, "run=parts", "checkpoint.shard_from=0")
        last = self.folder / "parts/checkpoints/last"
        self.assertEqual(sorted(each.name for each in last.iterdir()),
                         ["manifest.json", *(f"shard-{rank}-of-3.safetensors" for rank in range(3)), "shards.json", "state.json"])
        sizes = [each.stat().st_size for each in last.glob("shard-*")]
        self.assertLess(max(sizes) - min(sizes), 2000, "the headers differ")
        self.assertIn(", in shards, of which `tutti checkpoint export` makes a file", self.train("-np", 3, "--resume", "parts", "epochs=2"))
        shutil.copytree(self.folder / "parts", self.folder / "fewer", symlinks=True)
        self.train("-np", 3, "--resume", "parts", "epochs=4")
        self.assertEqual(self.losses("parts"), self.losses("whole"))
        self.assertEqual(self.tensors("parts"), self.tensors("whole"))
        self.train("-np", 1, "--resume", "fewer", "epochs=4", "checkpoint.shard_from=1024")
        self.assertTrue((self.folder / "fewer/checkpoints/last/model.safetensors").exists())
        self.train("-np", 2, *words, "run=begun", "model.from=parts")
        verified = command("checkpoint", "verify", "parts", cwd=self.folder)
        self.assertEqual(verified.returncode, 0, verified.stdout)

    def test_buffers_that_ranks_do_not_share_are_those_of_rank_0(self):
        (self.folder / "net.yaml").write_text("- conv: {filters: 4, kernel: 3}\n- batchnorm\n- relu\n- flatten\n- linear: classes\n")
        words = ["-np", 3, *WORDS[2:], "model=net.yaml", "sync.buffers=local", "steps=4", "batch=9"]
        for run, size in (("one", 1024), ("parts", 0)):
            self.train(*words, f"run={run}", f"checkpoint.shard_from={size}")
        self.assertEqual(self.tensors("parts"), self.tensors("one"))

    def test_a_damaged_shard_costs_one_checkpoint(self):
        words = ["-np", 2, *WORDS, "checkpoint.every_steps=4", "checkpoint.keep=0", "checkpoint.shard_from=0"]
        self.train(*words, "epochs=4", "run=whole")
        self.train(*words, "run=part")
        shard = self.folder / "part/checkpoints/step-10/shard-1-of-2.safetensors"
        whole = bytearray(shard.read_bytes())
        whole[-3] ^= 4
        shard.write_bytes(whole)
        refused = [command("checkpoint", "export", shard.parent, "--to", "damaged.safetensors", cwd=self.folder),
                   command("train", *WORDS, "run=begun", f"model.from={shard.parent}", cwd=self.folder)]
        for done in refused:
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn("step-10/shard-1-of-2.safetensors: is damaged: its checksum is wrong", done.stderr)
        self.assertFalse((self.folder / "damaged.safetensors").exists())
        said = self.train("-np", 2, "--resume", "part", "epochs=4")
        self.assertRegex(said, r"skipping a damaged checkpoint: .*step-10/shard-1-of-2.safetensors")
        self.assertEqual(self.tensors("part"), self.tensors("whole"))

    def test_a_rank_that_cannot_write_is_named(self):
        for number, words in enumerate((["checkpoint.shard_from=0"], ["strategy=local-sgd"])):
            elsewhere = ["sh", "-c", 'test "$TUTTI_RANK" = 1 && cd /; exec "$@"', "sh"]
            words = [*WORDS, *words, "steps=4", f"run=run{number}"]
            done = subprocess.run([BIN / "tutti", "run", "-np", "2", *elsewhere, BIN / "tutti", "train", *words],
                                  capture_output=True, text=True, timeout=150, env=CLEAN, cwd=self.folder)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertEqual(done.stderr.count("rank 1: run"), 1, done.stderr)
            self.assertIn("all of them have to see the folder of the run; give run= a shared one", done.stderr)
            left = [each.name for each in (self.folder / f"run{number}/checkpoints").iterdir()]
            self.assertEqual(left, ["history.jsonl"], "no checkpoint, and no part of one")


if __name__ == "__main__":
    unittest.main(verbosity=2)
