"""A rank that comes late to a call: the others' questions about it open no connection."""

import os
import subprocess
import sys
import unittest

from processes import TESTS, TUTTI, clean_environment

LATE = os.path.join(TESTS, "late_probe")


class LateRank(unittest.TestCase):
    def test_questions_open_no_connection(self):
        for late in ("5", "0"):
            done = subprocess.run([TUTTI, "run", "-np", "24", LATE, late, "1.2"], capture_output=True, text=True,
                                  timeout=200, env=clean_environment(TUTTI_TUNING="off", TUTTI_TRANSPORT="tcp"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("sockets of a rank", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
