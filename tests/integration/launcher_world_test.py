"""What surrounds `tutti run`: signals that a parent ignores, a full disk, ranks that are stopped, and where programs are.

Each is tried on this host and through an agent."""

import os
import pty
import signal
import subprocess
import sys
import tempfile
import unittest

from processes import TUTTI, clean_environment, run, wait_until

HERE = ("-np", "2")
BY_AGENTS = ("--hosts", "a,b", "--remote-start", "env ON_HOST={host}")


class InheritedSignals(unittest.TestCase):
    def start(self, where, script, ignored=(), blocked=()):
        def inherit():
            for one in ignored:
                signal.signal(one, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        launcher = subprocess.Popen([TUTTI, "run", *where, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, preexec_fn=inherit, restore_signals=False, env=clean_environment())
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        return launcher

    def test_ends_of_ranks_are_seen(self):
        for where in (HERE, BY_AGENTS):
            launcher = self.start(where, "exit $TUTTI_RANK", ignored=[signal.SIGCHLD], blocked=[signal.SIGCHLD])
            launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, 1, where)

    def test_it_can_be_told_to_end(self):
        for where in (HERE, BY_AGENTS):
            for one in (signal.SIGTERM, signal.SIGINT):
                for how in ({"ignored": [one]}, {"blocked": [one]}):
                    launcher = self.start(where, "echo there; exec sleep 600", **how)
                    self.assertEqual(launcher.stdout.readline(), "there\n")
                    launcher.send_signal(one)
                    launcher.communicate(timeout=60)
                    self.assertEqual(launcher.returncode, 128 + one, (where, one, how))

    def test_ranks_have_the_default_ones(self):
        every = [one for one in signal.valid_signals() if one not in (signal.SIGKILL, signal.SIGSTOP)]
        for where in (HERE, BY_AGENTS):
            launcher = self.start(where, "grep -E 'Sig(Blk|Ign)' /proc/self/status", ignored=every, blocked=every)
            out, err = launcher.communicate(timeout=60)
            hangup = 1 << (signal.SIGHUP - 1)  # a convention of nohup's
            self.assertEqual(sorted(out.splitlines()), [f"SigBlk:\t{0:016x}"] * 2 + [f"SigIgn:\t{hangup:016x}"] * 2, err)

    def test_nohup(self):
        script = "trap 'echo still there; exit 5' USR1; echo there; while :; do sleep 0.02; done"
        launcher = self.start(HERE, script, ignored=[signal.SIGHUP])
        for _ in range(2):
            self.assertEqual(launcher.stdout.readline(), "there\n")
        launcher.send_signal(signal.SIGHUP)
        launcher.send_signal(signal.SIGUSR1)  # comes after it, and is answered by those that are left
        self.assertEqual(launcher.communicate(timeout=60)[0], "still there\n" * 2)
        self.assertEqual(launcher.returncode, 5)


class ToldToEnd(unittest.TestCase):
    def end(self, where, script, one):
        launcher = subprocess.Popen([TUTTI, "run", *where, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=clean_environment())
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        for _ in range(2):
            self.assertEqual(launcher.stdout.readline(), "there\n")
        launcher.send_signal(one)
        out, err = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + one, (where, err))
        return out, err

    def test_ranks_that_ignore_it(self):
        script = "trap '' TERM INT; echo there; i=0; while [ $((i += 1)) -lt 400 ]; do sleep 0.1; done"
        for where in (HERE, BY_AGENTS):
            for flags in ((), ("--keep-going",)):
                for one in (signal.SIGTERM, signal.SIGINT):
                    _, err = self.end((*where, *flags, "--grace", "0.3"), script, one)
                    self.assertEqual(err, f"tutti run: 0.3 s after {one.name} ranks still run; ending them\n"
                                          "tutti run: afterwards ranks 0, 1 did not end in time and were ended\n")

    def test_ranks_that_end_within_the_grace(self):
        script = "trap 'sleep 3; echo saved; exit 0' TERM; echo there; while :; do sleep 0.02; done"
        for where in (HERE, BY_AGENTS):
            out, err = self.end((*where, "--grace", "60"), script, signal.SIGTERM)
            self.assertEqual(out, "saved\n" * 2)
            self.assertNotIn("tutti run", err)


class FullDisk(unittest.TestCase):
    def test_it_is_told_of_and_the_ranks_go_on(self):
        for where in (HERE, BY_AGENTS):
            for flags in ((), ("--tag-output",)):
                with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w") as full:
                    script = f"seq 100000; echo ended > {folder}/$TUTTI_RANK"
                    done = subprocess.run([TUTTI, "run", *where, *flags, "sh", "-c", script], stdout=full, stderr=subprocess.PIPE,
                                          text=True, timeout=60, env=clean_environment())
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertEqual(done.stderr, "tutti run: stdout cannot be written: No space left on device; what the ranks write "
                                                  "from now on is lost, and the exit code is not 0\n")
                    self.assertEqual(sorted(os.listdir(folder)), ["0", "1"])

    def test_a_failure_keeps_its_code(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TUTTI, "run", *HERE, "sh", "-c", "echo; exit 7"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 7)

    def test_a_reader_that_goes_is_no_loss(self):
        launcher = subprocess.Popen([TUTTI, "run", *HERE, "sh", "-c", "trap '' PIPE; yes 2> /dev/null; exit 0"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=clean_environment())
        self.assertEqual(launcher.stdout.readline(), "y\n")
        launcher.stdout.close()
        self.assertEqual(launcher.stderr.read(), "")
        launcher.stderr.close()
        self.assertEqual(launcher.wait(60), 0)

    def test_other_commands(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TUTTI, "help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "tutti: what it said was not all written to stdout: No space left on device\n"))


class StoppedRanks(unittest.TestCase):
    def told(self, where, script, pattern):
        """The script says its number, and ends once `go` is there."""
        with tempfile.TemporaryDirectory() as folder:
            launcher = subprocess.Popen([TUTTI, "run", *where, "sh", "-c", script, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=clean_environment())
            self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
            line = launcher.stderr.readline()
            self.assertRegex(line, pattern)
            with open(f"{folder}/1") as file:
                os.kill(int(file.read()), signal.SIGCONT)
            self.assertEqual(launcher.communicate(timeout=60), ("on\n" * 2, ""))
            self.assertEqual(launcher.returncode, 0)

    def test_they_are_named(self):
        script = ("if [ $TUTTI_RANK = 1 ]; then echo $$ > $0/1; kill -STOP $$; touch $0/go; fi; "
                  "while [ ! -e $0/go ]; do sleep 0.05; done; echo on")
        advice = "the others wait for it; `kill -CONT` with its pid lets it go on\n$"
        self.told(HERE, script, r"^tutti run: rank 1 \(pid \d+\) is stopped by SIGSTOP: " + advice)
        self.told(BY_AGENTS, script, r"^tutti run: rank 1 \(b, pid \d+\) is stopped by SIGSTOP: " + advice)

    def test_nobody_waits_where_no_other_runs(self):
        advice = r"is stopped by SIGSTOP: `kill -CONT` with its pid lets it go on"
        for ranks, where in ((1, ("-np", "1")), (1, ("--hosts", "a", *BY_AGENTS[2:])), (2, HERE), (2, BY_AGENTS)):
            launcher = subprocess.Popen([TUTTI, "run", *where, "sh", "-c", "echo $$; exec sleep 600"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=clean_environment())
            self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
            for pid in [int(launcher.stdout.readline()) for _ in range(ranks)]:
                os.kill(pid, signal.SIGSTOP)
            for _ in range(ranks):
                self.assertRegex(launcher.stderr.readline(), rf"^tutti run: rank [01] \(.*pid \d+\) {advice}\n$", where)
            launcher.send_signal(signal.SIGTERM)
            launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, 128 + signal.SIGTERM)

    def test_a_short_stop_is_not(self):
        script = "(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; sleep 3"
        done = run(TUTTI, "run", *HERE, "sh", "-c", script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_rank_that_reads_from_the_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(TUTTI, [TUTTI, "run", "-np", "2", "sh", "-c", "[ $TUTTI_RANK = 0 ] || read line < /dev/tty"], clean_environment())
        said = b""

        def names_it():
            nonlocal said
            said += os.read(terminal, 4096)
            return b"\n" in said.partition(b"is stopped by SIGTTIN: it reads from the terminal")[2]
        self.assertTrue(wait_until(names_it), said)
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        os.close(terminal)


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, content, mode=0o700):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)

    def started(self, *words):
        """As (code, stdout, stderr), the same on this host and by agents, which name the host."""
        here, there = (run(TUTTI, "run", *where, *words, cwd=self.folder) for where in (("-np", "1"), ("--hosts", "a", *BY_AGENTS[2:])))
        self.assertEqual((here.returncode, here.stdout), (there.returncode, there.stdout), (here.stderr, there.stderr))
        self.assertEqual(here.stderr.replace("tutti run: ", "tutti run: host 'a': "), there.stderr)
        return here.returncode, here.stdout, here.stderr

    def test_in_the_working_directory(self):
        self.write("prog", b"#!/bin/sh\necho \"$0 $1\"\n")
        self.assertEqual(self.started("prog", "x"), (0, "./prog x\n", ""))
        self.write("true", b"#!/bin/sh\necho not from PATH\n")
        self.assertEqual(self.started("true"), (0, "", ""))  # PATH goes before
        self.write("data", b"text\n", mode=0o600)
        self.assertEqual(self.started("data"), (126, "", "tutti run: cannot run 'data': Permission denied\n"))

    def test_a_script_without_an_interpreter(self):
        self.write("recipe", b"echo \"$0 $1\"\n")
        self.assertEqual(self.started("recipe", "a b"), (0, "./recipe a b\n", ""))
        self.write("empty", b"")
        self.assertEqual(self.started("./empty"), (0, "", ""))

    def test_what_cannot_be_executed_is_explained(self):
        carriage = "its first line ends with a carriage return, as in files from Windows; mend it: sed -i 's/\\r$//' ./bad"
        self.write("plain", b"text\n", mode=0o600)
        for content, code, why in (
                (b"#!/nowhere/foo -x\n", 127, "its interpreter /nowhere/foo does not exist"),
                (b"#! /nowhere/foo", 127, "its interpreter /nowhere/foo does not exist"),
                (f"#!{self.folder}/plain\n".encode(), 126, f"its interpreter {self.folder}/plain may not be executed"),
                (b"#!/bin/sh\r\necho\r\n", 127, carriage),
                (b"#!/usr/bin/env python3\r\nprint()\r\n", 127, carriage),
                (b"\0\1\2\3", 126, "it is no program for this machine (Exec format error)")):
            self.write("bad", content)
            self.assertEqual(self.started("./bad"), (code, "", f"tutti run: cannot start rank 0 (./bad): {why}\n"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
