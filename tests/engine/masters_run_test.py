"""tutti train with masters and workers: what is told in the end, a killed worker, mistakes."""

import os
import re
import signal
import subprocess
import time
import unittest

from training import BIN, CLEAN, TINY, InFolder, command


class Masters(InFolder):
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

    def test_the_others_go_on_when_a_worker_is_killed(self):
        words = [*TINY[:-1], "random_samples=4000", "epochs=15", "batch=30", "run=kept", "masters=1"]
        for preset in ("downpour", "easgd"):
            script = f"echo $TUTTI_RANK $$; exec {BIN / 'tutti'} train {' '.join(words)} strategy={preset}"
            with subprocess.Popen([BIN / "tutti", "run", "-np", "4", "--keep-going", "sh", "-c", script], text=True, env=CLEAN,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder) as job:
                pids = dict(map(int, job.stdout.readline().split()) for _ in range(4))
                metrics = self.folder / "kept" / "metrics.csv"
                for _ in range(3000):  # until the first epoch is over
                    if metrics.exists() and len(metrics.read_text().splitlines()) > 1 or job.poll() is not None:
                        break
                    time.sleep(0.01)
                os.kill(pids[2], signal.SIGKILL)  # the second worker
                stdout, stderr = job.communicate(timeout=120)
            self.assertIn("killed by signal 9", stderr)
            self.assertNotEqual(job.returncode, 0, "the job says that a rank failed")
            self.assertIn("judged on the masters' parameters", stdout, stderr)
            self.assertIn("worker 1  did not come to the end", stdout)
            self.assertEqual(len(re.findall(r"^worker [02]  \d+ exchanges", stdout, re.M)), 2, stdout)
            self.assertEqual(len(metrics.read_text().splitlines()), 16)
            metrics.unlink()
            subprocess.run(["rm", "-rf", self.folder / "kept"], check=True)

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
