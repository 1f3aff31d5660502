"""Elastic training: ranks are killed and replaced, and the network has the bits of a run without deaths; the argument is the folder of the programs."""

import csv
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "training"))

from training import BIN, CLEAN, InFolder, command, train  # noqa: E402
from survival import ranks_of, samples_of_epochs  # noqa: E402

NET = ["model=mlp", "hidden=32", "data=random:1x8x8", "data.samples=1000", "batch.global=40", "optimizer=adam", "data.shift=1", "progress=off"]
SAME = ["deterministic=membership"]


def weights(run):
    return (run / "checkpoints/last/model.safetensors").read_bytes()


def course(run):
    """Losses and held-out results of each epoch, without the times."""
    with open(run / "metrics.csv") as file:
        return [[row[name] for name in ("epoch", "learning_rate", "train_loss", "held_out_loss", "accuracy")] for row in csv.DictReader(file)]


def losses(run):
    """By step; the last line of a step is valid."""
    found = {}
    for line in (run / "log.jsonl").read_text().splitlines():
        one = json.loads(line)
        if "loss" in one and "step" in one and "epoch" not in one:
            found[one["step"]] = one["loss"]
    return found


class Elastic(InFolder):
    def check_ledger(self, samples, epochs):
        """Every sample of every epoch was in exactly one step that was done."""
        seen = samples_of_epochs(self.folder / "ledger")
        self.assertEqual(list(seen), list(range(epochs)))
        for epoch, ids in seen.items():
            self.assertEqual(ids, list(range(samples)), f"epoch {epoch}")

    def start(self, *words, ranks=4, flags=("--elastic", "1:4")):
        self.log = open(self.folder / "log.txt", "w")
        self.addCleanup(self.log.close)
        process = subprocess.Popen([BIN / "tutti", "run", "-np", str(ranks), *flags, BIN / "tutti", "train", *NET, *words], env=CLEAN,
                                   cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        return process

    def said(self):
        return (self.folder / "log.txt").read_text()

    def wait_for(self, text, times=1, seconds=60):
        until = time.monotonic() + seconds
        while self.said().count(text) < times:
            if time.monotonic() > until:
                self.fail(f"'{text}' was not said {times} times:\n{self.said()}")
            time.sleep(0.02)

    def end(self, process, code=0):
        self.assertEqual(process.wait(timeout=120), code, self.said())

    def kill(self, process, rank):
        os.kill(ranks_of(process.pid)[rank], signal.SIGKILL)

    def test_the_bits_are_those_of_a_run_without_deaths(self):
        train(1, *NET, *SAME, "epochs=60", "run=whole", cwd=self.folder)
        chance = random.Random(time.time_ns() % 1000)
        process = self.start(*SAME, "epochs=60", "run=killed", "checkpoint.every_epochs=7", "report.samples=ledger")
        self.wait_for("epoch   2/60")
        for kills in range(3):
            time.sleep(chance.uniform(0, 0.3))
            if process.poll() is None:
                self.kill(process, chance.choice(list(ranks_of(process.pid))) if kills else 0)
            while process.poll() is None and self.said().count("joined") <= kills:
                time.sleep(0.02)
        self.end(process)
        self.assertGreaterEqual(self.said().count("rank lost"), 1)
        self.assertEqual(weights(self.folder / "killed"), weights(self.folder / "whole"), self.said())
        self.assertEqual(course(self.folder / "killed"), course(self.folder / "whole"))
        self.assertEqual(losses(self.folder / "killed"), losses(self.folder / "whole"))
        self.assertIn("were replaced", self.said())
        self.check_ledger(1000, 60)

    def test_two_ranks_that_die_at_once(self):
        train(1, *NET, *SAME, "epochs=30", "run=whole", cwd=self.folder)
        process = self.start(*SAME, "epochs=30", "run=killed", flags=("--elastic", "1:4", "--restarts", "0"))
        self.wait_for("epoch   2/30")
        ranks = ranks_of(process.pid)
        for rank in (0, 2):
            os.kill(ranks[rank], signal.SIGKILL)
        self.end(process, 137)  # the ranks were not replaced
        self.assertIn("2 ranks go on", self.said())
        self.assertEqual(weights(self.folder / "killed"), weights(self.folder / "whole"), self.said())

    def test_the_same_course_up_to_rounding_without_membership(self):
        double = ["dtype=float64", "epochs=40"]
        train(1, *NET, *double, "run=whole", cwd=self.folder)
        process = self.start(*double, "run=killed")
        self.wait_for("epoch   2/40")
        self.kill(process, 1)
        self.wait_for("1 rank lost")
        self.end(process)
        for mine, other in zip(course(self.folder / "killed"), course(self.folder / "whole"), strict=True):
            for a, b in zip(mine, other):
                self.assertAlmostEqual(float(a), float(b), delta=1e-6 * max(1, abs(float(b))))

    def test_a_batch_that_shrinks_with_the_ranks(self):
        process = self.start("epochs=20", "run=killed", "elastic.batch=shrink", flags=("--elastic", "1:4", "--restarts", "0"))
        self.wait_for("epoch   2/20")
        self.kill(process, 3)
        self.end(process, 137)
        self.assertIn("3 ranks, global batch 30", self.said())
        self.assertEqual(len(course(self.folder / "killed")), 20)

    def check_goes_on_from_an_exchange(self, *strategy):
        """After the death of the last rank the others have the bits of a run that is resumed, without that rank, from a checkpoint after
        the last exchange before the death."""
        words = [*strategy, "epochs=30", "data.samples=1010"]
        process = self.start(*words, "run=killed", "report.samples=ledger", ranks=3, flags=("--elastic", "1:3", "--restarts", "0"))
        self.wait_for("epoch   2/30")
        self.kill(process, 2)
        self.end(process, 137)
        self.check_ledger(1010, 30)
        with open(self.folder / "killed/ranks.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["ranks"] for row in rows], ["3", "2"])
        step = rows[1]["step"]
        train(3, *NET, *words, f"checkpoint.every_steps={step}", "checkpoint.keep=99", "run=again", cwd=self.folder)
        train(2, *NET, *words, "checkpoint.every_steps=0", "run=again", f"checkpoint.resume=step-{step}", cwd=self.folder)
        self.assertEqual(weights(self.folder / "killed"), weights(self.folder / "again"), f"{rows}\n{self.said()}")

    def test_local_sgd_goes_on_from_its_last_exchange(self):
        self.check_goes_on_from_an_exchange("strategy=local-sgd", "strategy.every=4")

    def test_diloco_goes_on_from_its_last_exchange(self):
        self.check_goes_on_from_an_exchange("strategy=diloco", "strategy.every=7")

    def test_every_strategy_with_exchanges_among_all_ranks_goes_on(self):
        for strategy, *more in (("post-local-sgd",), ("streaming-diloco", "strategy.fragments=2"), ("eager-diloco",), ("sparseloco",), ("sparta",)):
            with self.subTest(strategy):
                shutil.rmtree(self.folder / "ledger", ignore_errors=True)
                shutil.rmtree(self.folder / "killed", ignore_errors=True)
                process = self.start(f"strategy={strategy}", *more, "epochs=400", "run=killed", "report.samples=ledger", "checkpoint.every_epochs=70",
                                     ranks=3, flags=("--elastic", "1:3"))
                self.wait_for("epoch   2/400")
                self.kill(process, 1)
                while process.poll() is None and "1 rank joined" not in self.said():
                    time.sleep(0.02)
                self.end(process)
                self.assertIn("1 rank joined", self.said())
                self.check_ledger(1000, 400)
                self.assertEqual(len(course(self.folder / "killed")), 400)

    def test_T1_newcomers_do_not_become_the_truth(self):
        """All ranks that have trained die while newcomers wait: the newcomers must not train on from random weights."""
        process = self.start(*SAME, "epochs=2000", "run=killed", "elastic.min=2", ranks=2, flags=("--elastic", "2:2", "--grace", "0.5"))
        self.wait_for("epoch   2/2000")
        for pid in ranks_of(process.pid).values():
            os.kill(pid, signal.SIGKILL)
        self.assertNotEqual(process.wait(timeout=60), 0, self.said())
        self.assertIn("nobody is left who could admit their replacements", self.said())
        self.assertEqual(self.said().count("epoch   1/2000"), 1, self.said())

    def test_T2_data_on_a_slow_link_starve_nobody(self):
        """A link that is full of data for seconds makes nobody look dead."""
        done = command("run", "-np", 2, "--transport", "tcp", "--net", "10mbit,20ms", BIN / "tutti", "bench", "allreduce", "-b", "4M", "-e", "4M",
                       "-n", "1", "-w", "0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("died", done.stdout + done.stderr)

    def test_T10_a_job_below_its_least_size_waits_and_recovers(self):
        train(1, *NET, *SAME, "epochs=30", "run=whole", cwd=self.folder)
        process = self.start(*SAME, "epochs=30", "run=killed", "elastic.min=3", "elastic.max=3", ranks=3, flags=("--elastic", "1:3"))
        self.wait_for("epoch   2/30")
        self.kill(process, 1)
        self.wait_for("training waits for 1 more to join")
        self.wait_for("3 ranks go on")
        self.end(process)
        self.assertEqual(weights(self.folder / "killed"), weights(self.folder / "whole"), self.said())

    def test_what_is_not_elastic_is_refused(self):
        for words, why in ((["strategy=noloco"], "does not go with strategy.name=noloco"), (["strategy.codec=int8"], "strategy.codec"),
                           (["elastic.min=5"], "elastic.min=5 is more than elastic.max=4"),
                           ([*SAME, "elastic.batch=shrink"], "leave one of them out")):
            with self.subTest(words):
                done = command("run", "-np", 2, BIN / "tutti", "train", *NET, "epochs=1", "run=none", "elastic.max=4", *words)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(why, done.stderr)
                self.assertEqual(done.stderr.count("tutti train"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
