"""Agents of other hosts that say what cannot be: a line and exit code 125, whatever it was, and soon."""

import os
import struct
import sys
import tempfile
import time
import unittest

from processes import TUTTI, run, script

REFUSED, OUTPUT, GOODBYE, CLOCK, PATIENT, EXAMINED, HOST, UNSTARTED = 7, 9, 12, 16, 18, 19, 20, 22  # of tools/run/channel.hpp


def frame(say, subject=0, number=0, text=b""):
    return struct.pack("<BiqI", say, subject, number, len(text)) + text


GREETING = b"\2" + run(TUTTI, "--version").stdout.strip().replace("tutti", "tutti agent").encode() + b"\n"


class FalseAgents(unittest.TestCase):
    def says(self, body, after="sleep 30", ranks="1"):
        """What the launcher says of an agent that greets, says `body`, and does `after`."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "said"), "wb") as file:
            file.write(GREETING + body)
        start = script(self, f"cat {folder.name}/said\n{after}")
        return self.launched("other:" + ranks, start)

    def launched(self, hosts, start):
        began = time.monotonic()
        done = run(TUTTI, "run", "--hosts", hosts, "--remote-start", start, "--silence", "8", "true")
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertLess(len(done.stderr), 2000)
        self.assertTrue(done.stderr.isprintable() or done.stderr.replace("\n", "").isprintable(), ascii(done.stderr))
        self.assertIn("other", done.stderr)
        return done.stderr

    def test_output_of_no_stream(self):
        for stream in (-1, -2, 2, 3, 2**31 - 1, -2**31):
            self.assertIn("its agent is not to be believed", self.says(frame(OUTPUT, stream, 0, b"abc")), stream)

    def test_a_goodbye_before_the_end(self):
        self.assertIn("its agent is not to be believed: it leaves before the job has ended", self.says(frame(GOODBYE)))

    def test_frames_of_every_kind(self):
        for say in {*range(UNSTARTED + 2), 255} - {REFUSED}:
            for subject in (-1, 0, 5):
                self.says(frame(say, subject, 1, b"x") + frame(255), after="exit 0")

    def test_answers_to_what_nobody_asked(self):
        for say, subject in ((CLOCK, 0), (PATIENT, 0), (EXAMINED, 0), (CLOCK, 7), (EXAMINED, -1), (HOST, 0), (UNSTARTED, 0)):
            self.assertIn("its agent is not to be believed: it ", self.says(frame(say, subject, 1, b"5")), (say, subject))

    def test_text_of_a_login_shell(self):
        self.says(b"Last login: Thu Nov 26 from example.org\r\n" * 40)

    def test_a_start_that_prints_for_ever(self):
        start = script(self, "yes welcome")
        self.assertIn("It begins: welcome", self.launched("other", start))

    def test_a_refusal_is_printed_without_commands(self):
        start = script(self, "printf '\\2tutti agent \\033[31m0.0.0\\n'; sleep 5")
        self.launched("other", start)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
