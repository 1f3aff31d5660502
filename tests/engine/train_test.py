"""tutti train as its users run it: one loss curve for any number of processes, real digits, mistakes."""

import collections
import contextlib
import fcntl
import json
import math
import os
import pathlib
import pty
import random
import re
import signal
import struct
import subprocess
import termios
import time
import unittest

from training import BIN, CLEAN, TINY, InFolder, command, state_of, train


class LossCurve(InFolder):
    def curve(self, ranks, *words):
        file = self.folder / f"{ranks}.csv"
        done = train(ranks, "--config", "lenet-digits", "data=random:1x8x8", "random_samples=1000", "steps=50",
                     f"loss_file={file}", "batch=70", "run=none", *words)
        self.assertIn("bitwise equal", done.stdout)
        lines = file.read_text().splitlines()
        self.assertEqual(lines[0], "step,loss")
        return [float(line.split(",")[1]) for line in lines[1:]]

    def same_curves(self, tolerance, *words):
        alone = self.curve(1, *words)
        self.assertEqual(len(alone), 50)
        for ranks in (2, 3, 4):  # a batch of 70 is uneven on 3 and 4; the 15th has 20 samples
            curve = self.curve(ranks, *words)
            self.assertLessEqual(max(abs(a - b) for a, b in zip(alone, curve, strict=True)), tolerance, ranks)

    def test_is_the_same_in_double_precision(self):
        self.same_curves(1e-10, "dtype=float64")

    def test_is_the_same_in_single_precision(self):
        self.same_curves(1e-5, "dtype=float32")


    def test_is_the_same_behind_a_slow_link(self):
        self.assertEqual(self.curve(2, "--net", "1gbit,100us"), self.curve(2))


class Digits(InFolder):
    def test_four_processes_read_handwriting(self):
        made = command("data", "optdigits", "digits", cwd=self.folder)
        if made.returncode == 1 and "--from" in made.stderr:
            self.skipTest("the digits cannot be fetched here: " + made.stderr.strip())
        self.assertEqual(made.returncode, 0, made.stderr)
        again = command("data", "optdigits", "digits", cwd=self.folder)
        self.assertEqual((again.returncode, again.stderr.count("\n")), (2, 1), again.stderr)
        done = train(4, "--config", "lenet-digits", "--data", "digits", "target=98", cwd=self.folder)
        self.assertIn("1438 training and 359 held-out images", done.stdout)
        self.assertIn("equal on all 4 ranks", done.stdout)
        accuracies = [float(each) for each in re.findall(r"^epoch .*  accuracy ([0-9.]+) %", done.stdout, re.M)]
        self.assertLessEqual(len(accuracies), 40)
        self.assertEqual([each >= 98 for each in accuracies], [False] * (len(accuracies) - 1) + [True])
        self.assertIn("accuracy reached stop.target", done.stdout)


class MpiLearn(InFolder):
    """The digits in mpi_learn's form, trained as its README trains MNIST."""

    def test_model_and_two_lists_of_files(self):
        made = command("data", "optdigits", "digits", "--format", "hdf5", cwd=self.folder)
        if made.returncode == 1 and ("--from" in made.stderr or "without HDF5" in made.stderr):
            self.skipTest("the digits cannot be made here: " + made.stderr.strip())
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual((self.folder / "digits/train.txt").read_text().split(), [f"train_{i}.h5" for i in range(4)])
        done = command("train", "-np", 3, "digits/model.json", "digits/train.txt", "digits/test.txt", "--loss",
                       "categorical_crossentropy", "--epochs", 5, "--batch", 20, "--lr", 0.05, "run=none", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("global batch 60", done.stdout)  # 20 of each rank
        self.assertEqual(done.stdout.count("held-out loss"), 5)
        self.assertGreater(float(re.search(r"held-out accuracy ([0-9.]+) %", done.stdout)[1]), 85)


class OwnRanks(InFolder):
    """`tutti train -np N` starts its own ranks."""

    def test_trains_as_under_tutti_run(self):
        files = [self.folder / name for name in ("own.csv", "run.csv")]
        own = command("train", "-np", 2, *TINY, f"loss_file={files[0]}", "batch=8")
        self.assertEqual(own.returncode, 0, own.stderr)
        self.assertIn("equal on all 2 ranks", own.stdout)
        train(2, *TINY, f"loss_file={files[1]}", "batch=8")
        self.assertEqual(files[0].read_text(), files[1].read_text())

    def test_mistakes_are_found_before_any_rank_starts(self):
        done = command("train", "-np", 4, *TINY, "epoch=3")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^tutti train: no config key 'epoch'; did you mean 'epochs'\?\n$")
        inside = command("run", "-np", 2, BIN / "tutti", "train", "-np", 2, *TINY)
        self.assertEqual(inside.returncode, 2)
        self.assertIn("leave -np out here", inside.stderr)

    def test_the_configuration_is_printed_with_its_sources(self):
        done = command("train", "--config", "lenet-digits", "--print-config", "lr=0.1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  lr: 0\.1 +# the command line$")
        self.assertRegex(done.stdout, r"(?m)^  momentum: 0\.9 +# .*lenet-digits\.yaml:\d+$")
        (self.folder / "again.yaml").write_text(done.stdout)
        again = command("train", "--config", self.folder / "again.yaml", "--print-config")
        values = [[line.split("#")[0].rstrip() for line in text.splitlines()] for text in (done.stdout, again.stdout)]
        self.assertEqual(*values)


class Text(unittest.TestCase):
    LICENCES = pathlib.Path("/usr/share/common-licenses")

    def test_a_transformer_learns_more_than_how_frequent_bytes_are(self):
        files = sorted(file for file in self.LICENCES.glob("*") if file.is_file() and not file.is_symlink())
        text = b"".join(file.read_bytes() for file in files)
        if len(text) < 50000:
            self.skipTest(f"{self.LICENCES} has too little text")
        shares = [count / len(text) for count in collections.Counter(text).values()]
        entropy = -sum(share * math.log(share) for share in shares)
        done = command("train", "-np", 2, "--config", "gpt-text", "--steps", 100, "--epochs=1", "progress=off", "run=none")
        self.assertEqual(done.returncode, 0, done.stderr)
        held_out = float(re.search(r"held-out loss ([0-9.]+)", done.stdout)[1])
        self.assertLess(held_out, 0.9 * entropy)
        self.assertIn("bitwise equal on all 2 ranks", done.stdout)


class Resume(InFolder):
    """A run that is killed and resumed is the run that was left alone."""

    WORDS = ["model=mlp", "hidden=32", "data=random:1x8x8", "random_samples=2000", "epochs=6", "progress=off", "batch=40",
             "dtype=float64", "optimizer=adam", "checkpoint.every_steps=7", "checkpoint.every_epochs=1", "checkpoint.keep=0"]

    def weights(self, run):
        return (self.folder / run / "checkpoints/last/model.safetensors").read_bytes()

    def test_after_kills_at_random_times(self):
        whole = command("train", "-np", 2, *self.WORDS, "run=whole", cwd=self.folder)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        wait = random.Random(7)
        checkpoints = self.folder / "parts/checkpoints"
        before, resumed = set(), 0
        for attempt in range(6):
            with open(self.folder / "out", "w+", encoding="utf-8") as out:
                process = subprocess.Popen([BIN / "tutti", "train", "-np", "2", *self.WORDS, "run=parts", "--resume"], env=CLEAN,
                                           cwd=self.folder, stdout=out, stderr=out, start_new_session=True)
                # Killed some time after it has kept one more checkpoint; the last attempt is left alone.
                while process.poll() is None and (attempt == 5 or set(checkpoints.glob("step-*")) <= before):
                    time.sleep(0.01)
                time.sleep(wait.uniform(0, 0.05))
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                out.seek(0)
                text = out.read()
            resumed += "resuming " in text
            before = set(checkpoints.glob("step-*"))
        self.assertEqual(process.returncode, 0, text)
        self.assertGreater(resumed, 2)
        self.assertEqual(self.weights("parts"), self.weights("whole"))
        states = [state_of(self.folder / run / "checkpoints/last") for run in ("parts", "whole")]
        self.assertEqual(states[0]["losses"], states[1]["losses"])
        self.assertEqual(states[0]["step"], 6 * 50)

    def test_a_folder_that_has_a_run_is_not_overwritten(self):
        words = ["train", "-np", 3, *TINY, "batch=8", "run=mine", "checkpoint.every_epochs=1"]
        self.assertEqual(command(*words, cwd=self.folder).returncode, 0)
        again = command(*words, cwd=self.folder)
        self.assertEqual((again.returncode, again.stdout.count("epoch ")), (2, 0), again.stderr)
        self.assertEqual(again.stderr.count("tutti train: run=mine has a run in it already"), 1, again.stderr)
        self.assertEqual(again.stderr.count("--resume"), 1)


class DryRun(InFolder):
    """What would be done is said, and nothing is started."""

    WORDS = ["train", "-np", 16, "--dry-run", "model=mlp", "hidden=100", "data=random:1x10x10", "random_samples=2000", "batch=70",
             "micro_batch=2", "optimizer=adam"]

    def test_says_what_16_ranks_would_do(self):
        done = command(*self.WORDS, "--link", "50us,1gbit", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("no rank was started", "16 ranks, data parallel", "70 samples a step: up to 5 on each rank, in 3 pieces of up to 2",
                     "mlp: 11110 parameters of float32, 44.4 kB", "44.5 kB of gradients in 1 buckets", "83.4 kB a step",
                     "optimizer 88.9 kB", "50 us, 0.125 GB/s, as was given"):
            self.assertIn(part, done.stdout)
        # 30 messages of 50 us, and 83.4 kB at 1 Gbit/s; nothing hides the one bucket
        self.assertRegex(done.stdout, r"2\.17 ms of communication, .*: 2\.17 ms exposed")
        self.assertEqual(list(self.folder.iterdir()), [])
        rarely = command(*self.WORDS, "--link", "50us,1gbit", "sync.rule=parameters", "sync.every=10", cwd=self.folder).stdout
        self.assertIn("44.4 kB of parameters; each rank sends 2 (P-1) / P of it, 83.3 kB every 10 steps", rarely)
        self.assertIn("0.217 ms of communication, of which backward hides 0: 0.217 ms exposed", rarely)
        measured = command(*self.WORDS, cwd=self.folder)
        self.assertIn("between two threads of this host", measured.stdout, measured.stderr)

    def test_a_strategy_is_explained(self):
        done = command("train", "-np", 4, "--explain-strategy", *self.WORDS[4:], "strategy=streaming_diloco", "strategy.fragments=2",
                       cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("strategy    streaming-diloco: ", "when      every 64, in 2 fragments by turns", "codec     e3m0:64",
                     "apply     late, 2 steps, alpha 0.5", "bytes       each of 4 ranks gives", "memory      "):
            self.assertIn(part, done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])
        bad = command("train", "-np", 4, *self.WORDS[4:], "strategy=diloco", "strategy.outer=ftrl", cwd=self.folder)
        self.assertEqual((bad.returncode, bad.stderr.count("\n")), (2, 1), bad.stderr)
        self.assertIn("strategy.outer=ftrl: expected none, sgd", bad.stderr)

    def test_too_much_parallelism_is_refused_before_anything_starts(self):
        for flags in (["--dry-run"], []):
            done = command("train", "-np", 8, *flags, *TINY, "batch=6", cwd=self.folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("batch.global=6 has no sample for some of 8 ranks: make it at least 8", done.stderr)


class Mistakes(InFolder):
    def refused(self, *words, says, ranks=3):
        done = train(ranks, *words, code=2, cwd=self.folder)
        said = [line for line in done.stderr.splitlines() if line.startswith("tutti train: ")]
        self.assertEqual(len(said), 1, done.stderr)
        for part in says:
            self.assertIn(part, said[0])
        self.assertNotIn("epoch", done.stdout)

    def test_configuration(self):
        self.refused(*TINY, "epoch=3", says=["'epoch'", "'epochs'"])
        self.refused(*TINY, "epochs=many", says=["epochs=many", "whole number"])
        self.refused("--config", "lenet-digit", says=["lenet-digits, lenet-mnist, mlp-digits"])
        self.refused("--confg", "lenet-digits", says=["'--config'"])
        (self.folder / "my.yaml").write_text("model: mlp\nmomentun: 1\n")
        self.refused("--config", "my.yaml", says=["my.yaml:2:", "'momentum'"])
        self.refused(says=["no data", "tutti data optdigits"])
        self.refused(*TINY, "optimizer=adamm", says=["'adamm'", "adam"])
        self.refused(*TINY, "optimizer.rho=0.5", says=["optimizer.name=momentum", "rho"])
        self.refused(*TINY, "loss=crossentropy", says=["loss=crossentropy", "cross_entropy"])
        self.refused(str(self.folder / "my.yaml"), says=["three files"])

    def test_device(self):
        self.refused(*TINY, "device=gpu", says=["device=gpu", "auto or cpu or cuda"])
        done = command("run", "-np", 2, BIN / "tutti", "train", *TINY, "--device", "cuda")
        if done.returncode == 0:
            self.assertIn("on device 0 (", done.stdout)
        else:
            self.refused(*TINY, "--device", "cuda", says=["device=cuda: rank 0 has no device", "or say device=cpu"])

    def test_data(self):
        self.refused("data=nowhere", says=["nowhere", "tutti data optdigits"])
        self.refused("data=random:28", says=["images of channels, rows and columns"])
        empty = self.folder / "empty"
        empty.mkdir()
        self.refused(f"data={empty}", says=["train-images-idx3-ubyte"])
        (empty / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(30))
        (empty / "train-labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 9]) + bytes(9))
        self.refused(f"data={empty}", says=["train-images-idx3-ubyte", "expected 36 bytes", "found 30"])

    def test_more_ranks_than_samples(self):
        self.refused(*TINY, "random_samples=2", says=["3 ranks", "2 samples"])

    def test_nothing_is_half_written(self):
        self.refused(*TINY, "loss_file=out.csv", "batch=2", says=["batch="])
        self.refused(*TINY, "loss_file=there/out.csv", says=["there"])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_missed_target_is_a_failure(self):
        done = train(2, *TINY, "target=100", code=1)
        self.assertIn("target=100", done.stderr)

    def test_data_sets(self):
        for words in (["data", "mnist", "x"], ["data", "optdigits"], ["data", "optdigits", "x", "--from", "absent.gz"]):
            done = command(*words, cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


class LastCheck(InFolder):
    def test_losses_are_kept_where_replicas_differ(self):
        file = self.folder / "losses.csv"
        done = command("run", "-np", 2, BIN / "tutti", "train", *TINY, "batch=8", f"loss_file={file}",
                       env=CLEAN | {"LD_PRELOAD": str(BIN.parent / "tests/libdiffering_replicas.so")})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("tutti train: replicas differ: 'fc1.weight' on rank 1\n"), 1, done.stderr)
        self.assertRegex(done.stdout, r"held-out accuracy .* after 5 steps in .* s\n")
        self.assertNotIn("bitwise equal", done.stdout)
        self.assertEqual(len(file.read_text().splitlines()), 1 + 5)


class Output(InFolder):
    def test_help_is_printed_once(self):
        self.assertEqual(train(3, "--help").stdout.count("Keys, for files"), 1)

    def test_random_data_is_said_to_be_random(self):
        done = train(2, *TINY)
        self.assertIn("random tensors of 1x4x4", done.stdout)
        self.assertIn("samples/s", done.stdout)
        self.assertIn("communication", done.stdout)

    def test_says_where_it_trains(self):
        self.assertIn("; this one on the CPU\n", train(2, *TINY, "device=cpu").stdout)
        self.assertIn("; this one on ", train(2, *TINY).stdout)

    def test_live_line_only_where_asked_for(self):
        self.assertNotIn("\x1b[K", train(1, *TINY[:-1]).stderr)
        self.assertIn("\x1b[K", train(1, *TINY[:-1], "progress=on").stderr)

    def test_live_line_fits_its_terminal(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 30, 0, 0))
        done = subprocess.run([BIN / "tutti", "train", "-np", "2", *TINY[:-2], "run=none", "batch=2", "epochs=400"], env=CLEAN,
                              stdout=subprocess.PIPE, stderr=slave, timeout=150, check=True)
        os.close(slave)
        drawn = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while block := os.read(master, 65536):
                drawn += block
        os.close(master)
        lines = drawn.decode().split("\r\x1b[K")
        self.assertEqual(lines[0], "")
        self.assertEqual(lines[-1], "")  # rubbed out before what follows
        self.assertTrue(any(line.startswith("epoch ") for line in lines), lines[:5])
        self.assertLess(max(map(len, lines)), 30)
        self.assertNotIn(b"\x1b", done.stdout)

    def test_trains_without_a_launcher(self):
        done = command("train", *TINY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 rank,", done.stdout)


if __name__ == "__main__":
    unittest.main()
