"""tutti train with masters and workers: the final report, killed workers, joining workers, mistakes."""

import json
import math
import os
import re
import signal
import subprocess
import time
import unittest

from training import BIN, CLEAN, TINY, InFolder, command


class Jobs(InFolder):
    """Starts training jobs whose processes a test may kill."""

    def job(self, run, *words, ranks=4, masters="masters=1"):
        """Starts a job and returns it, after its first epoch, with the process ids by rank. The first ranks are masters."""
        words = [*TINY[:-1], "random_samples=4000", "epochs=24", "batch=30", f"run={run}", masters, *words]
        script = f"echo $TUTTI_RANK $$; exec {BIN / 'tutti'} train {' '.join(words)}"
        job = subprocess.Popen([BIN / "tutti", "run", "-np", str(ranks), "--keep-going", "sh", "-c", script], text=True, env=CLEAN,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder)
        pids = dict(map(int, job.stdout.readline().split()) for _ in range(ranks))
        self.addCleanup(self.end, job, pids)
        self.until(lambda: len(self.lines(run)) > 1 or job.poll() is not None)
        return job, pids

    @staticmethod
    def until(reached):
        """Waits until reached() is true, for half a minute at most."""
        for _ in range(3000):
            if reached():
                break
            time.sleep(0.01)

    def end(self, job, pids):
        if job.poll() is None:  # the test failed before the job ended
            for pid in (*pids.values(), job.pid):
                os.kill(pid, signal.SIGKILL)
            job.wait()
        job.stdout.close()
        job.stderr.close()

    def lines(self, run):
        """The lines of the metrics file: a heading, and a line for each epoch."""
        metrics = self.folder / run / "metrics.csv"
        return metrics.read_text().splitlines() if metrics.exists() else []


class Masters(Jobs):
    def test_the_first_master_tells_of_each_worker(self):
        done = command("train", "-np", 4, *TINY, "batch=6", "epochs=3", "strategy=downpour", "masters=1", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("judged on the masters' parameters", done.stdout)
        found = re.findall(r"^worker (\d)  (\d+) exchanges  [0-9.]+ MB sent  [0-9.]+ MB got  staleness [0-9.]+, at most \d+$",
                           done.stdout, re.M)
        self.assertEqual([worker for worker, _ in found], ["0", "1", "2"], done.stdout)
        self.assertEqual(done.stdout.count("held-out accuracy"), 1, "the first worker alone reports")

    def test_every_preset_trains_where_all_ranks_work(self):
        for preset in ("dp-easgd", "gem", "decoupled-diloco"):
            done = command("train", "-np", 2, *TINY, "epochs=3", f"strategy={preset}", "strategy.every=3", cwd=self.folder)
            self.assertEqual(done.returncode, 0, (preset, done.stderr))
            self.assertIn("judged on the masters' parameters", done.stdout, preset)

    def check_share(self, run, stdout, stderr, how):
        """Checks that the second worker did a part of its 24 epochs of 134 steps, and the others the rest."""
        self.assertIn("judged on the masters' parameters", stdout, stderr)
        found = re.search(r"^worker 1  did not come to the end: rank 2 " + how + r" after (\d+) of 3216 steps; others did (\d+)$",
                          stdout, re.M)
        self.assertTrue(found, stdout + stderr)
        self.assertEqual(int(found[1]) + int(found[2]), 3216, stdout)
        self.assertGreater(int(found[2]), 0, stdout)
        self.assertEqual(len(re.findall(r"^worker [02]  \d+ exchanges", stdout, re.M)), 2, stdout)
        self.assertEqual(len(self.lines(run)), 25)
        return int(found[1]), int(found[2])

    # TUTTI_TEST_PRESETS=all runs all presets; each run takes some seconds of all cores.
    ALL = ("downpour", "asgd", "easgd", "gem", "decoupled-diloco")
    KILLED, STOPPED = (ALL, ALL) if os.environ.get("TUTTI_TEST_PRESETS") == "all" else (("asgd", "easgd", "decoupled-diloco"),
                                                                                       ("downpour", "easgd"))

    def test_the_others_do_the_share_of_a_killed_worker(self):
        for preset in self.KILLED:
            job, pids = self.job(preset, f"strategy={preset}")
            os.kill(pids[2], signal.SIGKILL)  # the second worker
            stdout, stderr = job.communicate(timeout=120)
            self.assertIn("killed by signal 9", stderr)
            self.assertNotEqual(job.returncode, 0, "the job says that a rank failed")
            own, _ = self.check_share(preset, stdout, stderr, "died")
            if preset == "asgd":  # asgd exchanges in every step
                exchanges = sum(int(each) for each in re.findall(r"^worker \d  (\d+) exchanges", stdout, re.M))
                self.assertEqual(exchanges + own, 3 * 3216, stdout)

    def test_the_next_one_tells_when_the_first_worker_is_killed(self):
        job, pids = self.job("first", "strategy=asgd")
        os.kill(pids[1], signal.SIGKILL)
        stdout, stderr = job.communicate(timeout=120)
        self.assertRegex(stdout, r"(?m)^held-out accuracy .* judged on the masters' parameters$", stderr)
        self.assertIn("worker 1 tells of this, as those before it have died; the network is first/model.safetensors", stdout)
        found = re.search(r"^worker 0  did not come to the end: rank 1 died after (\d+) of 3216 steps; others did (\d+)$", stdout,
                          re.M)
        self.assertEqual(int(found[1]) + int(found[2]), 3216, stdout)
        data = (self.folder / "first" / "model.safetensors").read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        self.assertEqual(sum(math.prod(each["shape"]) for name, each in header.items() if name != "__metadata__"), 226)

    def test_a_stopped_worker_is_given_up_and_told(self):
        jobs = {}
        for preset in self.STOPPED:  # in parallel, because the jobs mostly wait
            jobs[preset] = job, pids = self.job(preset, f"strategy={preset}", "strategy.silence=4")
            os.kill(pids[2], signal.SIGSTOP)
        for preset, (job, pids) in jobs.items():
            stdout = line = ""
            while not line.startswith("worker 1"):  # until the first master has reported it
                line = job.stdout.readline()
                self.assertTrue(line, "the job has ended: " + stdout)
                stdout += line
            os.kill(pids[2], signal.SIGCONT)
            stdout += job.stdout.read()
            stderr = job.stderr.read()
            job.wait(timeout=120)
            self.check_share(preset, stdout, stderr, "was not heard from for 4 s")
            told = [each for each in stderr.splitlines() if "tutti train: rank 2" in each]
            self.assertEqual(len(told), 1, stderr)
            self.assertIn("rank 2 was not heard from for 4 s and was given up; start it again", told[0])

    def join(self, run):
        """Starts a process that joins the run, once training has begun."""
        self.until((self.folder / run / "join").exists)
        return subprocess.Popen([BIN / "tutti", "train", "--join", run], text=True, env=CLEAN, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, cwd=self.folder)

    def test_a_worker_joins_and_does_what_others_have_not_begun(self):
        job, _ = self.job("joined", "strategy=asgd", "strategy.joins=2")
        self.assertEqual((self.folder / "joined" / "join").stat().st_mode & 0o777, 0o600)
        late, killed = self.join("joined"), self.join("joined")
        time.sleep(1)
        os.kill(killed.pid, signal.SIGKILL)
        stdout, stderr = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, stderr)
        said, why = late.communicate(timeout=60)
        killed.communicate(timeout=60)
        self.assertEqual(late.returncode, 0, why)
        number, steps = map(int, re.search(r"^worker ([34]) joined joined and did (\d+) steps of 10 samples$", said, re.M).groups())
        self.assertGreater(steps, 0)
        self.assertIn(f"worker {number}  joined while training ran, and did {steps} steps of others\n", stdout)
        done = sum(int(each) for each in re.findall(r"^worker [012]  (\d+) exchanges", stdout, re.M))
        died = re.search(r"^worker [34]  joined while training ran, and did (\d+) steps of others, then died$", stdout, re.M)
        self.assertLess(done + steps, 3 * 3216 + 1, stdout)
        self.assertGreaterEqual(done + steps + (int(died[1]) if died else 0), 3 * 3216, stdout)
        self.assertLess(done, 3 * 3216, stdout)
        self.assertFalse((self.folder / "joined" / "join").exists())

    def test_who_cannot_join_is_told_why(self):
        for words, why in ((("--join", "nowhere"), "there is no run in it, as it has no config.yaml"),
                           (("--join=nowhere", "epochs=3"), "and nothing else"),
                           (("strategy=asgd", "masters=1", "strategy.joins=1", "run=none"), "say run=DIR"),
                           (("strategy=easgd", "masters=1", "strategy.joins=1", "strategy.elastic_force=0.9"),
                            "say strategy.elastic")):
            done = command("train", *([] if words[0].startswith("--join") else ["-np", 2, *TINY]), *words, cwd=self.folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)
        done = command("train", "-np", 2, *TINY, "epochs=1", "strategy=asgd", "masters=1", "run=over", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = command("train", "--join", "over", cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is nothing to join in over", done.stderr)

    def test_a_master_that_dies_is_named_and_its_checkpoint_resumes(self):
        for preset in ("downpour", "easgd"):
            words = [f"strategy={preset}", "checkpoint.every_epochs=1", "optimizer=adam"]
            job, pids = self.job(preset, *words)
            self.until(lambda: any((self.folder / preset / "checkpoints").glob("step-*")))
            os.kill(pids[0], signal.SIGKILL)
            stdout, stderr = job.communicate(timeout=120)
            self.assertNotEqual(job.returncode, 0)
            told = [each for each in stderr.splitlines() if each.startswith("tutti train")]
            self.assertEqual(told, ["tutti train: rank 0, which kept the parameters, has died, so training ends; go on from the "
                                    f"last checkpoint: tutti train -np 4 --resume {preset}"], stderr)
            before = len(self.lines(preset))
            done = command("train", "-np", 4, *TINY[:-1], "random_samples=4000", "epochs=24", "batch=30", "masters=1", *words,
                           "--resume", f"run={preset}", cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"resuming {preset}/checkpoints/step-", done.stdout)
            self.assertIn("judged on the masters' parameters", done.stdout)
            self.assertGreater(before, 1)
            self.assertEqual(len(self.lines(preset)), 25)

    def test_all_end_where_the_first_worker_cannot_begin(self):
        words = [*TINY, "masters=1", "strategy=downpour", "run=broken"]
        self.assertEqual(command("train", "-np", 4, *words, cwd=self.folder).returncode, 0)
        for file in (self.folder / "broken" / "checkpoints").glob("*/*.safetensors"):
            os.truncate(file, 4)
        done = command("train", "-np", 4, *words, "--resume", cwd=self.folder)
        self.assertNotEqual(done.returncode, 0)
        told = [each for each in done.stderr.splitlines() if each.startswith("tutti train:")]
        why = [each for each in told if "the first worker could not begin" not in each]
        self.assertEqual(len(why), 1, done.stderr)

    def test_mistakes_are_told_before_anything_starts(self):
        for words, said in ((["masters=2", "strategy=easgd"], "nobody is left to work"),
                            (["masters=1", "strategy=dp-easgd"], "do not make whole workers; start 3 ranks"),
                            (["strategy=downpour", "strategy.codec=int8"], "leave when, fragments, codec"),
                            (["strategy=easgd", "strategy.outer=sgd"], "leave strategy.outer out")):
            done = command("train", "-np", 2, *TINY, *words, cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(said, done.stderr)

    def test_a_strategy_of_masters_is_explained(self):
        done = command("train", "-np", 4, *TINY, "strategy=easgd", "--explain-strategy", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"bytes       each worker sends [0-9.]+ k?B and gets as much every 10 steps")


class SubMasters(Jobs):
    """Rank 0 is the top master, ranks 1 and 2 are sub-masters, and ranks 3 to 6 are workers, two in each group."""

    GROUPS = {"ranks": 7, "masters": "strategy.submasters=2"}

    def test_groups_reach_the_accuracy_of_one_master(self):
        made = command("data", "optdigits", "digits", cwd=self.folder)
        if made.returncode != 0:
            self.skipTest("the digits cannot be fetched here: " + made.stderr.strip())
        done = command("train", "-np", 7, "--config", "lenet-digits", "data=digits", "target=97", "run=digits", "progress=off",
                       "strategy=easgd", "strategy.submasters=2", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("judged on the masters' parameters", done.stdout)
        self.assertIn("\nthe network is digits/model.safetensors\n", done.stdout)
        self.assertEqual(re.findall(r"^(worker|sub-master) (\d)  \d+ exchanges  [0-9.]+ MB sent", done.stdout, re.M),
                         [*(("worker", str(i)) for i in range(4)), ("sub-master", "0"), ("sub-master", "1")], done.stdout)

    def test_the_dead_are_replaced_within_their_group_alone(self):
        job, pids = self.job("killed", "strategy=asgd", "epochs=12", **self.GROUPS)
        for rank in (3, 5, 6):  # the first worker, which reports, and all of the second group
            os.kill(pids[rank], signal.SIGKILL)
        stdout, stderr = job.communicate(timeout=120)
        self.assertIn("judged on the masters' parameters", stdout, stderr)
        self.assertIn("worker 1 tells of this, as those before it have died; the network is killed/model.safetensors", stdout)
        self.assertTrue((self.folder / "killed/model.safetensors").exists())
        self.assertEqual(re.findall(r"^(worker|sub-master) (\d)  \d+ exchanges", stdout, re.M),
                         [("worker", "1"), ("sub-master", "0"), ("sub-master", "1")], stdout)
        for worker, rest in ((0, "; others did"), (2, "; others did 0, and nobody"), (3, "; others did 0, and nobody")):
            found = re.search(rf"^worker {worker}  did not come to the end: rank {worker + 3} died after (\d+) of 1500 steps"
                              rf"{rest} (\d+)$", stdout, re.M)
            self.assertTrue(found, stdout + stderr)
            self.assertEqual(int(found[1]) + int(found[2]), 1500, stdout)
            self.assertGreater(int(found[2]), 0, stdout)

    def test_a_master_that_dies_is_named_in_one_line(self):
        for rank, whose in ((2, " of a group"), (0, "")):
            job, pids = self.job(f"master{rank}", "strategy=asgd", **self.GROUPS)
            os.kill(pids[rank], signal.SIGKILL)
            _, stderr = job.communicate(timeout=60)
            self.assertNotEqual(job.returncode, 0)
            told = [each for each in stderr.splitlines() if each.startswith("tutti train")]
            self.assertEqual(told, [f"tutti train: rank {rank}, which kept the parameters{whose}, has died, so training ends; "
                                    "begin again, as there are no checkpoints with strategy.submasters"], stderr)

    def test_what_cannot_be_is_told_before_anything_starts(self):
        for words, said in ((["strategy.submasters=2"], "start at least 5 ranks"),
                            (["strategy.submasters=1", "run=kept", "checkpoint.every_epochs=1"], "leave checkpoint.every_epochs")):
            done = command("train", "-np", 4, *TINY, "strategy=easgd", *words, cwd=self.folder)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
