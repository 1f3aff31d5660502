"""`tutti run --tag-output`: lines, their ranks, and a reader that pauses or goes."""

import array
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import termios
import unittest

from processes import TUTTI, clean_environment, shell, tutti_run, wait_until


class Output(unittest.TestCase):
    def test_lines_are_tagged_and_never_split(self):
        # Written in pieces of odd sizes, so that lines come to the launcher in parts.
        script = ("import os, sys\n"
                  "rank = os.environ['TUTTI_RANK']\n"
                  "for fd in (1, 2):\n"
                  "    text = ''.join(f'{rank} {fd} {i} ' + 'x' * (i * 7 % 300) + '\\n' for i in range(1000)).encode()\n"
                  "    at = 0\n"
                  "    while at < len(text):\n"
                  "        at += os.write(fd, text[at:at + 1 + at % 997])\n")
        done = tutti_run(4, sys.executable, "-c", script, flags=["--tag-output"])
        self.assertEqual(done.returncode, 0)
        for fd, text in ((1, done.stdout), (2, done.stderr)):
            lines = text.split("\n")
            self.assertEqual(lines.pop(), "")
            self.assertEqual(len(lines), 4000)
            for rank in range(4):
                mine = [line for line in lines if line.startswith(f"[{rank}] ")]
                self.assertEqual(mine, [f"[{rank}] {rank} {fd} {i} " + "x" * (i * 7 % 300) for i in range(1000)])

    def test_last_line_without_newline(self):
        done = shell(2, 'printf "end $TUTTI_RANK"', "--tag-output")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] end 0", "[1] end 1"])

    def test_without_tags_output_is_untouched(self):
        self.assertEqual(shell(1, "printf 'a\\nb'").stdout, "a\nb")

    def test_what_a_killed_rank_had_said(self):
        done = shell(1, "echo last words; kill -9 $$", "--tag-output")
        self.assertEqual(done.stdout, "[0] last words\n")

    def test_closed_output(self):
        # `tutti run ... | head -1`: the rank that goes on writing is ended by SIGPIPE.
        with subprocess.Popen([TUTTI, "run", "-np", "1", "--tag-output", "yes"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=clean_environment()) as launcher:
            self.assertEqual(launcher.stdout.readline(), b"[0] y\n")
            launcher.stdout.close()
            self.assertEqual(launcher.wait(60), 128 + signal.SIGPIPE)


    def test_long_lines_are_cut(self):
        done = shell(1, "head -c 200000 /dev/zero | tr '\\0' x; echo; echo end", "--tag-output")
        parts = [65536, 65536, 65536, 200000 - 3 * 65536]
        self.assertEqual(done.stdout.split("\n"), ["[0] " + "x" * size for size in parts] + ["[0] end", ""])

    def test_both_streams_in_one_pipe(self):
        script = "i=0; while [ $i -lt 500 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"
        done = subprocess.run([TUTTI, "run", "-np", "2", "--tag-output", "sh", "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=clean_environment(), timeout=60, text=True)
        wanted = [f"[{rank}] {stream}{i}" for rank in range(2) for stream in ("out", "err") for i in range(500)]
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(wanted))


class PausedReader(unittest.TestCase):
    def start(self, script, *flags):
        launcher = subprocess.Popen([TUTTI, "run", "-np", "1", "--tag-output", *flags, "sh", "-c", script, self.note],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        self.addCleanup(launcher.stdout.close)
        self.addCleanup(launcher.stderr.close)
        return launcher

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.note = os.path.join(folder.name, "note")

    def fill(self, launcher):
        """Waits until nothing more comes into the pipe that nobody reads: for 20 looks the same number of bytes."""
        seen = []

        def filled():
            waiting = array.array("i", [0])
            fcntl.ioctl(launcher.stdout, termios.FIONREAD, waiting)
            seen.append(waiting[0])
            return len(seen) >= 20 and seen[-1] > 0 and len(set(seen[-20:])) == 1
        self.assertTrue(wait_until(filled))

    def test_signals_are_passed_on(self):
        launcher = self.start('trap "echo heard > $0; exit 3" USR1; yes & while :; do sleep 0.02; done')
        self.fill(launcher)
        launcher.send_signal(signal.SIGUSR1)
        self.assertTrue(wait_until(lambda: os.path.exists(self.note)))
        out, err = launcher.communicate(timeout=60)  # nothing that was said is lost
        self.assertEqual(launcher.returncode, 3)
        self.assertEqual(set(out.splitlines()), {b"[0] y"})
        self.assertIn(b"rank 0", err)

    def test_a_ranks_end_is_seen(self):
        # The rank's parent reaps it though nobody reads.
        launcher = self.start('yes & echo $$ > $0; while [ ! -e $0.go ]; do sleep 0.02; done; exit 5')
        self.fill(launcher)
        with open(self.note) as file:
            rank = int(file.read())
        open(self.note + ".go", "w").close()
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{rank}")))
        launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 5)

    def test_time_limit(self):
        launcher = self.start("exec yes", "--time-limit", "0.5")
        self.assertEqual(launcher.wait(60), 124)

    def test_told_to_end(self):
        launcher = self.start("exec yes")
        self.fill(launcher)
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual(launcher.wait(60), 128 + signal.SIGTERM)

    def test_the_rank_waits_and_nothing_is_lost(self):
        launcher = self.start("seq 1000000; echo done > $0")
        self.fill(launcher)
        self.assertFalse(os.path.exists(self.note))  # 7 MB are more than the launcher keeps
        out, _ = launcher.communicate(timeout=60)
        self.assertEqual(out.decode().splitlines(), [f"[0] {i}" for i in range(1, 1000001)])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
