"""--net: links of a given rate and latency between ranks. Times are not judged here (docs/book/10-measuring.md has some)."""

import csv
import io
import os
import signal
import subprocess
import sys
import time
import unittest

from processes import TESTS, TUTTI, alive, clean_environment, run, tutti_run

COLLECTIVES = os.path.join(TESTS, "collectives_probe")


class Net(unittest.TestCase):
    def test_every_collective_gives_what_it_gives_without(self):
        for transport in ("shm", "tcp"):
            plain = tutti_run(3, COLLECTIVES, flags=("--transport", transport))
            shaped = tutti_run(3, COLLECTIVES, flags=("--transport", transport, "--net", "10gbit,20us"))
            self.assertEqual((shaped.returncode, shaped.stdout), (0, plain.stdout), shaped.stderr)
            self.assertIn("played", plain.stdout)

    def test_a_route_tells_of_its_link(self):
        done = tutti_run(2, COLLECTIVES, "--routes", env=clean_environment(TUTTI_NET="1gbit,0.5ms"))
        self.assertRegex(done.stdout, "rank 1: shm [^,]* as 1gbit,500us, self", done.stderr)

    def test_everyone_has_rank_zeros_link(self):
        script = f'[ $TUTTI_RANK = 0 ] && export TUTTI_NET=1gbit; exec {COLLECTIVES} --routes'
        done = tutti_run(2, "sh", "-c", script)
        self.assertRegex(done.stdout, "rank 0: self, shm [^,]* as 1gbit\n", done.stderr)
        self.assertRegex(done.stdout, "rank 1: shm [^,]* as 1gbit, self\n")

    def test_the_benchmark_checks_what_went_through_the_links(self):
        for transport in ("shm", "tcp"):
            for collective in ("allreduce", "sendrecv"):
                done = run(TUTTI, "bench", collective, "-np", "2", "--net", "1gbit,1ms", "-b", "8", "-e", "512K", "-f", "256",
                           "-n", "2", "-w", "1", "--transport", transport, "--format", "csv")
                rows = list(csv.DictReader(io.StringIO(done.stdout)))
                self.assertEqual([row["ok"] for row in rows], ["yes"] * 3, done.stderr)
                # Nobody's clock is so busy that a link gets faster: two messages each way, or one.
                self.assertTrue(all(float(row["min_us"]) >= 1000 for row in rows), rows)

    def test_mistakes_are_told_in_a_line(self):
        for words in (("run", "-np", "2", "--net", "50mbps", "true"), ("bench", "allreduce", "--net", "50mbps")):
            done = run(TUTTI, *words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn("'mbps' is not a unit", done.stderr)
            self.assertIn("as in 50mbit,20ms", done.stderr)

    def test_a_death_is_heard_of_while_the_link_is_full(self):
        script = f"echo $$; exec {TUTTI} bench allreduce -b 64M -e 64M -n 1 -w 0 -c 0"  # twenty minutes by this link
        with subprocess.Popen([TUTTI, "run", "-np", "3", "--net", "1mbit,200ms", "sh", "-c", script], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()) as job:
            pids = [int(job.stdout.readline()) for _ in range(3)]
            time.sleep(2)  # by then it is under way, most likely; before, death is heard of as well
            os.kill(pids[2], signal.SIGKILL)
            _, stderr = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("was killed by signal 9", stderr)
        self.assertFalse(any(alive(pid) for pid in pids))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
