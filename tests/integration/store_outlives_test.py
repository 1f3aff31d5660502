"""Jobs of whole processes one after the other in a folder that outlives them."""

import os
import subprocess
import sys
import tempfile
import unittest

from processes import PROBE, TESTS, clean_environment, wait_until

COLLECTIVES = os.path.join(TESTS, "collectives_probe")
SECRET = "4" * 64
IN_CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def ends(process):
    """What it wrote to stderr."""
    return process.communicate(timeout=60)[1]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.url = f"file://{folder.name}"

    def rank(self, rank, size, words, container=False, **variables):
        env = clean_environment(TUTTI_RANK=str(rank), TUTTI_SIZE=str(size), TUTTI_STORE=self.url, TUTTI_SECRET=SECRET, **variables)
        process = subprocess.Popen([*(IN_CONTAINER if container else []), *words], env=env, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def start(self, ranks, size, words=(COLLECTIVES, "--who"), **options):
        return [self.rank(rank, size, words, **options) for rank in ranks]

    def assert_whole(self, size, **options):
        started = self.start(range(size), size, **options)
        said = [ends(process) for process in started]
        self.assertEqual([process.returncode for process in started], [0] * size, said)

    def keys(self, ending):
        """Files of keys; a file's name has other characters than letters, digits, - and _ as .2f."""
        return [name for name in os.listdir(self.folder) if name.endswith(ending)]

    def test_any_size(self):
        for size in (2, 2, 3, 2, 1, 3):
            self.assert_whole(size)

    def test_a_start_in_which_a_rank_did_not_come(self):
        for present, absent in (((0, 2), 1), ((1, 2), 0)):
            for process in self.start(present, 3, TUTTI_CONNECT_TIMEOUT="1"):
                self.assertIn(f"rank {absent} has not joined the others in 1 s", ends(process))
            self.assert_whole(3)

    def test_a_start_killed_in_the_middle(self):
        for killed in (0, 1):
            process = self.rank(killed, 2, (COLLECTIVES, "--who"))
            if killed == 0:
                self.assertTrue(wait_until(lambda: self.keys("door.2f1.2fhello.2f0")))
            else:  # there is a turn already, and its seat is taken
                self.assertFalse(wait_until(lambda: process.poll() is not None, seconds=1))
            process.kill()
            ends(process)
            self.assert_whole(2)

    def test_a_script_of_programs(self):
        script = f"{COLLECTIVES} --who && {COLLECTIVES} --who"
        self.assert_whole(2, words=("sh", "-c", script))
        self.assert_whole(2, words=("sh", "-c", script))

    def test_a_rank_that_is_there_twice(self):
        # Its process is alive after the job: whoever comes as the same rank is told.
        first = self.start(range(2), 2, words=(PROBE, "stays"))
        for process in first:
            self.assertIn("sum 3", process.stdout.readline())
        second = self.rank(0, 2, (COLLECTIVES, "--who"))
        self.assertIn(f"rank 0 is there twice: process {first[0].pid} and this one", ends(second))
        for process in first:
            process.kill()
            ends(process)
        self.assert_whole(2)

    def test_containers(self):
        """Process numbers are those of each container: the same in all of them, and of other processes."""
        if subprocess.run([*IN_CONTAINER, "true"], capture_output=True, timeout=60).returncode != 0:
            self.skipTest("no PID namespaces can be made here")
        self.assert_whole(2, container=True)
        self.assert_whole(3, container=True)
        # The first job's ranks were number 2; now that is the number of another process, which is alive.
        self.assert_whole(2, container=True, words=("sh", "-c", f"{COLLECTIVES} --who; exit $?"))
        self.assert_whole(2, container=True, words=("sh", "-c", f"sleep 60 & {COLLECTIVES} --who; r=$?; kill $!; exit $r"))
        self.assert_whole(2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
