"""A program under thread sanitizer that links a tutti without it: with the suppressions that are installed nothing is
reported but the program's own race."""

import os
import subprocess
import unittest

from processes import TESTS, TUTTI, clean_environment

SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "cmake", "tsan.supp")


def reports(transport, *words):
    """What a run of two ranks wrote, and the first lines of what thread sanitizer reported."""
    options = f"suppressions={os.path.realpath(SUPPRESSIONS)} history_size=7 exitcode=0"
    done = subprocess.run([TUTTI, "run", "-np", "2", "--transport", transport, os.path.join(TESTS, "sanitizer_probe"), *words],
                          capture_output=True, text=True, timeout=200, env=clean_environment(TUTTI_TUNING="off", TSAN_OPTIONS=options))
    return done, [line for line in (done.stdout + done.stderr).splitlines() if "WARNING: ThreadSanitizer" in line]


class Sanitizer(unittest.TestCase):
    def test_nothing_is_reported_of_tutti(self):
        for transport in ("shm", "tcp"):
            done, found = reports(transport)
            self.assertEqual((done.returncode, done.stdout.count("wrong 0"), found), (0, 2, []), done.stderr[-3000:])

    def test_the_programs_own_race_is_reported(self):
        done, found = reports("shm", "race")
        self.assertEqual(done.stdout.count("wrong 0"), 2, done.stderr[-3000:])
        self.assertIn("data race", "".join(found))


if __name__ == "__main__":
    unittest.main(argv=["sanitizer_test"])
