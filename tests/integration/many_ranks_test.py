"""Many ranks on a host: 256 start by default, what they compute is right, all hear of a death, and none holds more than
one of 16 does."""

import os
import re
import signal
import subprocess
import sys
import unittest

from processes import TESTS, TUTTI, clean_environment, wait_until

MANY = os.path.join(TESTS, "many_probe")
RANKS, VICTIM = 256, 100


def environment():
    return clean_environment(TUTTI_TUNING="off", OMP_NUM_THREADS="1")


def memory_of_each(ranks):
    """KiB for each rank, after each step."""
    done = subprocess.run([TUTTI, "run", "-np", str(ranks), MANY, "ranks"], capture_output=True, text=True, timeout=280,
                          env=environment())
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return {what: int(kib) for what, kib in re.findall(r"^(.*): \d+ KiB, (\d+) for each rank,", done.stdout, re.M)}


class ManyRanks(unittest.TestCase):
    def test_what_a_rank_holds_does_not_grow(self):
        few, many = memory_of_each(16), memory_of_each(RANKS)
        for what in ("allreduce of 8 B", "allreduce of 1 MiB", "split"):
            self.assertLess(many[what], few[what] + 1024, what)
        self.assertLess(many["alltoall"], few["alltoall"] + 8 * 1024, "it holds a ring to every other rank, of 4 MiB together")

    def test_all_hear_of_a_death(self):
        with subprocess.Popen([TUTTI, "run", "--grace", "60", "-np", str(RANKS), MANY, "wait"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment()) as job:
            try:
                self.assertEqual(job.stdout.readline(), "all are there\n")
                victim = []

                def found():
                    for pid in subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True).stdout.split():
                        with open(f"/proc/{pid}/environ") as file:
                            if f"TUTTI_RANK={VICTIM}" in file.read().split("\0"):
                                victim.append(int(pid))
                    return bool(victim)
                self.assertTrue(wait_until(found))
                os.kill(victim[0], signal.SIGKILL)
                said, _ = job.communicate(timeout=120)
            finally:
                job.kill()
        told = re.findall(rf"rank {VICTIM} \(process {victim[0]} on host .*\) died", said)
        self.assertEqual(len(told), RANKS - 1, said[-3000:])
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
