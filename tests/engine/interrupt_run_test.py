"""Signals and max_time: training ends after a step, says how to go on, and a resumed run has the bits of one that was left alone."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from training import BIN, CLEAN, InFolder, command, state_of

WORDS = ["model=lenet", "data=random:1x28x28", "random_samples=2000", "epochs=4", "batch=32", "progress=off", "optimizer=adam", "lr=0.001",
         "validate.every_steps=20"]
STEPS = 252  # of which 63 are an epoch


class Interrupt(InFolder):
    def start(self, *words):
        path = f"{BIN}{os.pathsep}{CLEAN['PATH']}"
        return subprocess.Popen([str(BIN / "tutti"), "train", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**CLEAN, "PATH": path}, cwd=self.folder)

    def steps(self, run):
        log = self.folder / run / "log.jsonl"
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(line) for line in lines if line.startswith('{"step"')]

    def wait_for_step(self, started, run, step):
        until = time.monotonic() + 120
        while time.monotonic() < until and started.poll() is None:
            seen = self.steps(run)
            if seen and seen[-1]["step"] >= step:
                return
            time.sleep(0.02)
        self.fail(f"step {step} was not reached: {started.communicate()}")

    def ended(self, started):
        out, err = started.communicate(timeout=120)
        return started.returncode, out, err

    def state(self, run):
        return state_of(self.folder / run / "checkpoints/last")

    def whole(self, *words):
        done = command("train", *words, "run=whole", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.state("whole"), (self.folder / "whole/checkpoints/last/model.safetensors").read_bytes()

    def bits(self, *words):
        """Three times SIGTERM ends a run that is undisturbed once; the printed line goes on with it."""
        state, model = self.whole(*words)
        line = [*words, "run=ended"]
        for step in (STEPS // 5, STEPS // 2, STEPS - 60):
            started = self.start(*line)
            self.wait_for_step(started, "ended", step)
            started.send_signal(signal.SIGTERM)
            code, out, err = self.ended(started)
            self.assertEqual(code, 128 + signal.SIGTERM, out + err)
            self.assertIn("ended early: it was asked to end", out)
            self.assertNotIn("exited with code", err)
            self.assertLess(self.state("ended")["step"], STEPS)
            line = re.search(r"(?m)^next .*; tutti train (.*)$", out)[1].split()
        code, out, err = self.ended(self.start(*line))
        self.assertEqual(code, 0, out + err)
        self.assertEqual(self.state("ended")["losses"], state["losses"])
        self.assertEqual(self.state("ended")["validations"], state["validations"])
        self.assertEqual((self.folder / "ended/checkpoints/last/model.safetensors").read_bytes(), model)

    def test_two_ranks_have_the_same_bits(self):
        self.bits("-np", 2, *WORDS)

    def test_one_rank_too(self):
        self.bits(*WORDS)

    def test_ranks_that_exchange_now_and_then(self):
        self.bits("-np", 2, *WORDS, "strategy=local-sgd", "strategy.every=8")

    def test_sigusr1_writes_a_checkpoint(self):
        started = self.start("-np", 2, *WORDS, "run=marked")
        self.wait_for_step(started, "marked", 60)
        started.send_signal(signal.SIGUSR1)
        code, out, err = self.ended(started)
        self.assertEqual(code, 0, out + err)
        step = int(re.search(r"a checkpoint after step (\d+) is being written", out)[1])
        self.assertTrue((self.folder / f"marked/checkpoints/step-{step}/state.json").exists())
        self.assertIn(f"after {STEPS} steps", out)

    def test_a_second_signal_ends_at_once(self):
        started = self.start(*WORDS, "epochs=400", "run=hasty")
        self.wait_for_step(started, "hasty", 20)
        started.send_signal(signal.SIGSTOP)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            started.send_signal(each)
        code, out, err = self.ended(started)
        self.assertIn(code, (-signal.SIGINT, -signal.SIGTERM), out + err)

    def test_max_time(self):
        done = command("train", "-np", 2, *WORDS, "epochs=100000", "max_time=2s", "run=timed", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ended early: max_time has passed", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^next .*tutti train -np 2 --resume timed$")
        self.assertGreater(self.state("timed")["step"], 0)
        self.assertRegex((self.folder / "timed/config.yaml").read_text(), r"(?m)^max_time: 2 +#")

    def test_losses_are_written_as_they_come(self):
        started = self.start("-np", 2, *WORDS, "epochs=1000", "run=written", "loss_file=losses.csv")
        self.wait_for_step(started, "written", 5)
        self.assertGreater(len((self.folder / "losses.csv").read_text().splitlines()), 5)
        started.send_signal(signal.SIGINT)
        code, out, err = self.ended(started)
        self.assertEqual(code, 128 + signal.SIGINT, out + err)
        losses = self.state("written")["losses"]
        written = [float(line.split(",")[1]) for line in (self.folder / "losses.csv").read_text().splitlines()[1:]]
        self.assertEqual(written, losses)
        self.assertEqual([each["loss"] for each in self.steps("written")], losses)

    def test_a_run_that_diverges_exits_with_1_and_keeps_its_curve(self):
        tiny = ["model=mlp", "hidden=8", "data=random:1x4x4", "random_samples=80", "batch=8", "epochs=2", "progress=off", "lr=1e38", "optimizer=sgd"]
        for words, keeps in (([], True), (["strategy=local-sgd"], False), (["strategy=downpour", "masters=1"], False)):
            done = command("train", "-np", 2, *tiny, *words, f"run=run{len(words)}", "loss_file=losses.csv", cwd=self.folder)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("are not finite numbers: try a smaller optimizer.lr", done.stderr)
            self.assertNotIn("--resume", done.stdout)
            if keeps:
                self.assertRegex((self.folder / "losses.csv").read_text(), r"^step,loss\n0,2\.\d+\n(.*\n)*\d+,-?nan\n$")
                self.assertIn("ended early", done.stdout)
                self.assertEqual(done.stderr.count("tutti train: "), 1, done.stderr)

    def test_a_folder_belongs_to_one_run(self):
        started = self.start(*WORDS, "epochs=400", "run=mine")
        self.wait_for_step(started, "mine", 3)
        done = command("train", *WORDS, "run=mine", "--resume", cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"run=mine: a run is going on in it \(process \d+ on host .*\): wait for its end, or name another folder")
        started.send_signal(signal.SIGTERM)
        self.ended(started)
        together = [self.start("model=mlp", "data=random:1x4x4", "random_samples=40", "epochs=1", "progress=off") for _ in range(3)]
        for each in together:
            self.assertEqual(self.ended(each)[0], 0)
        self.assertEqual(len(list((self.folder / "runs").iterdir())), 3)


if __name__ == "__main__":
    unittest.main()
