"""What ranks write, through `tutti run`: whole lines of one rank at a time, tags, terminals, and a reader that pauses or goes."""

import array
import collections
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from processes import TUTTI, clean_environment, run, shell, tutti_run, wait_until


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
        done = shell(1, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", "--tag-output")
        parts = [1 << 20, 1 << 20, 3000000 - (2 << 20)]
        self.assertEqual(done.stdout.split("\n"), ["[0] " + "x" * size for size in parts] + ["[0] end", ""])

    def test_both_streams_in_one_pipe(self):
        script = "i=0; while [ $i -lt 500 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"
        done = subprocess.run([TUTTI, "run", "-np", "2", "--tag-output", "sh", "-c", script], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=clean_environment(), timeout=60, text=True)
        for rank in range(2):  # one pipe keeps the order of a rank's two streams
            mine = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] {stream}{i}" for i in range(500) for stream in ("out", "err")])


class WholeLines(unittest.TestCase):
    """Without tags, too, and from stderr as well."""

    # Each line is written in many pieces, so that those of several ranks would mix in one pipe.
    PIECES = ("import os, sys, time\n"
              "rank = os.environ['TUTTI_RANK']\n"
              "for i in range(100):\n"
              "    for fd in (1, 2):\n"
              "        for piece in (f'rank {rank}', f' line {i}', f' of {fd}', ' ' + 'x' * i, '\\n'):\n"
              "            os.write(fd, piece.encode())\n"
              "            os.sched_yield()\n")

    def wanted(self, ranks, fd):
        return collections.Counter(f"rank {rank} line {i} of {fd} {'x' * i}" for rank in range(ranks) for i in range(100))

    def test_pieces_of_lines(self):
        done = tutti_run(4, sys.executable, "-c", self.PIECES)
        self.assertEqual(done.returncode, 0)
        for fd, text in ((1, done.stdout), (2, done.stderr)):
            self.assertEqual(collections.Counter(text.splitlines()), self.wanted(4, fd))

    def test_on_several_hosts(self):
        done = run(TUTTI, "run", "--hosts", "a:2,b:2", "--remote-start", "env ON_HOST={host}", sys.executable, "-c", self.PIECES)
        self.assertEqual(done.returncode, 0)
        for fd, text in ((1, done.stdout), (2, done.stderr)):
            self.assertEqual(collections.Counter(text.splitlines()), self.wanted(4, fd))

    def test_ranks_that_die_at_once(self):
        # As the C++ library writes it, in pieces, and without the end of the line.
        script = ("import os, signal\n"
                  "for piece in ('terminate called after throwing an instance of ', \"'\", 'tutti::Error', \"'\\n\", '  what():  ',\n"
                  "              'rank ' + os.environ['TUTTI_RANK'] + ' died'):\n"
                  "    os.write(2, piece.encode())\n"
                  "    os.sched_yield()\n"
                  "os.kill(os.getpid(), signal.SIGABRT)\n")
        done = tutti_run(6, sys.executable, "-c", script, flags=["--grace", "30"])
        self.assertEqual(done.returncode, 128 + signal.SIGABRT)
        lines = done.stderr.splitlines()
        self.assertEqual(lines.count("terminate called after throwing an instance of 'tutti::Error'"), 6, done.stderr)
        self.assertEqual(sorted(line for line in lines if "what" in line), [f"  what():  rank {rank} died" for rank in range(6)])
        first, others = [line for line in lines if line.startswith("tutti run: ")]
        rank = int(re.fullmatch(r"tutti run: rank (\d) \(pid \d+\) was killed by signal 6 \(SIGABRT\)(?:, core dumped)?", first)[1])
        self.assertLess(lines.index(f"  what():  rank {rank} died"), lines.index(first))  # its words come before its end
        self.assertRegex(others, r"^tutti run: afterwards ranks [0-5, -]+ were killed by signal 6 \(SIGABRT\)")
        self.assertEqual(len(lines), 6 * 2 + 2)

    def test_lists_of_ranks_are_ranges(self):
        done = shell(40, '[ $TUTTI_RANK = 7 ] && exit 3; [ $TUTTI_RANK = 20 ] && exit 0; exec sleep 600', "--grace", "1")
        self.assertIn("tutti run: afterwards ranks 0-6, 8-19, 21-39 did not end in time and were ended\n", done.stderr)

    def test_last_lines_without_newline(self):
        done = shell(3, 'printf "end $TUTTI_RANK"')
        self.assertEqual(sorted(done.stdout.split("\n")), ["end 0", "end 1", "end 2"])

    def test_what_one_rank_writes_is_untouched(self):
        script = ("import os, sys\n"
                  "if os.environ['TUTTI_RANK'] == '1':\n"
                  "    data = bytes(range(256)) * 20000 + b'\\r\\rno end'\n"
                  "    while data: data = data[os.write(1, data[:100001]):]\n")
        for ranks in (2, 3):
            done = subprocess.run([TUTTI, "run", "-np", str(ranks), sys.executable, "-c", script], stdout=subprocess.PIPE,
                                  env=clean_environment(), timeout=60, check=True)
            self.assertEqual(done.stdout, bytes(range(256)) * 20000 + b"\r\rno end")

    def test_a_line_of_megabytes(self):
        done = shell(2, "[ $TUTTI_RANK = 0 ] || { head -c 5000000 /dev/zero | tr '\\0' x; echo; }")
        self.assertEqual(done.stdout, "x" * 5000000 + "\n")

    def test_a_question_is_seen_before_its_answer(self):
        script = '[ $TUTTI_RANK = 0 ] || exec sleep 600; printf "name? "; read name; echo "it is $name"; exit 3'
        with subprocess.Popen([TUTTI, "run", "-np", "2", "--grace", "0", "sh", "-c", script], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment()) as launcher:
            self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
            self.assertEqual(launcher.stdout.read(6), b"name? ")
            launcher.stdin.write(b"tutti\n")
            launcher.stdin.flush()
            self.assertEqual(launcher.stdout.read(), b"it is tutti\n")
            self.assertEqual(launcher.wait(60), 3)

    def test_who_holds_the_pipe_is_not_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            # A daemon without the launcher's mark, in a session of its own, which keeps stdout and stderr.
            daemon = f'echo $$ > {folder}/new; mv {folder}/new {folder}/pid; exec sleep 600'
            script = (f'[ $TUTTI_RANK = 1 ] && exit 0; env -i setsid sh -c "{daemon}" & '
                      f'while [ ! -e {folder}/pid ]; do sleep 0.02; done; echo said')
            done = shell(2, script.replace("$$", "\\$\\$"))
            with open(f"{folder}/pid") as file:
                pid = int(file.read())
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.assertEqual((done.returncode, done.stdout), (0, "said\n"))
        os.kill(pid, 0)  # it is still there

    def test_streams_of_many_ranks_need_descriptors(self):
        script = "ulimit -n"
        done = run("sh", "-c", f'ulimit -Sn 64; exec "$0" run -np 60 sh -c "{script}"', TUTTI)
        self.assertEqual((done.returncode, done.stdout), (0, "692\n" * 60), done.stderr)


class OnATerminal(unittest.TestCase):
    def on_terminal(self, *words, size=(50, 132)):
        """What the terminal shows of a command whose stdin, stdout and stderr it is."""
        child, terminal = pty.fork()
        if child == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.execve(TUTTI, [TUTTI, *words], clean_environment())
        seen = b""
        try:
            while block := os.read(terminal, 4096):
                seen += block
        except OSError:  # EIO: the other side has gone
            pass
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen.decode()

    def test_ranks_see_a_terminal_of_its_size(self):
        script = "import os; print(os.environ['TUTTI_RANK'], os.isatty(1), os.isatty(2), *os.get_terminal_size(1))"
        for ranks in (1, 3):
            code, seen = self.on_terminal("run", "-np", str(ranks), sys.executable, "-c", script)
            self.assertEqual(code, 0, seen)
            self.assertEqual(sorted(seen.splitlines()), [f"{rank} True True 132 50" for rank in range(ranks)])

    def test_ranks_see_none_where_there_is_none(self):
        script = "import os; print(os.isatty(1), os.isatty(2))"
        self.assertEqual(tutti_run(2, sys.executable, "-c", script).stdout, "False False\n" * 2)

    def test_lines_stay_whole(self):
        code, seen = self.on_terminal("run", "-np", "3", sys.executable, "-c", WholeLines.PIECES)
        self.assertEqual(code, 0)
        wanted = WholeLines().wanted(3, 1) + WholeLines().wanted(3, 2)
        self.assertEqual(collections.Counter(seen.splitlines()), wanted)
        self.assertEqual(seen.count("\r\n"), 3 * 200)  # as the terminal wants them, and no other carriage return
        self.assertEqual(seen.count("\r"), 3 * 200)

    def test_a_progress_bar(self):
        script = "[ $TUTTI_RANK = 1 ] && exit 0; for i in 1 2 3; do printf '%s of 3\\r' $i; done; echo done"
        _, seen = self.on_terminal("run", "-np", "2", "sh", "-c", script)
        self.assertEqual(seen, "1 of 3\r2 of 3\r3 of 3\rdone\r\n")


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
