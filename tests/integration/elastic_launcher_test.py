"""`tutti run --elastic`: which ranks are replaced, by what process and how often, and how such a job ends.

Most programs are shell scripts: whether ranks admit a replacement does not matter to the launcher. Some are ranks that do."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from processes import PROBE, TESTS, TUTTI, alive, clean_environment, run, script, wait_until

ELASTIC_PROBE = os.path.join(TESTS, "elastic_probe")
HANG_PROBE = os.path.join(TESTS, "hang_probe")
BY_AGENTS = ("--remote-start", "env ON_HOST={host}", "--fan-out", "2")
HERE = ("-np", "2")
TWO_HOSTS = ("--hosts", "a,b", *BY_AGENTS)
EVERYWHERE = (HERE, TWO_HOSTS)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def noted(self):
        return sorted(os.listdir(self.folder))

    def words(self, *flags, text):
        """Scripts have the folder as $0, and `note NAME` makes a file in it; `await NAME` waits for one, and `outlive NAME` for
        the end of the process that has made it."""
        helpers = ('note() { echo $$ > "$0/.$1"; mv "$0/.$1" "$0/$1"; }; await() { while ! [ -e "$0/$1" ]; do sleep 0.02; done; }; '
                   'outlive() { await $1; while kill -0 $(cat "$0/$1") 2> /dev/null; do sleep 0.02; done; sleep 0.5; }; ')
        return [TUTTI, "run", *flags, "sh", "-c", helpers + text, self.folder]

    def shell(self, *flags, text, **options):
        return run(*self.words(*flags, text=text), **options)

    def start(self, *flags, text, **options):
        launcher = subprocess.Popen(self.words(*flags, text=text), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=clean_environment(), **options)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        self.addCleanup(launcher.stdout.close)
        self.addCleanup(launcher.stderr.close)
        return launcher

    def assert_lines(self, text, *patterns):
        lines = text.splitlines()
        self.assertEqual(len(lines), len(patterns), text)
        for line, pattern in zip(lines, patterns):
            self.assertRegex(line, f"^tutti run: {pattern}$")


class Replaced(Case):
    def test_a_rank_that_is_killed(self):
        text = ('[ $TUTTI_RANK = 1 ] && [ -z "$TUTTI_JOIN" ] && kill -9 $$; [ $TUTTI_RANK = 1 ] && note joined; await joined; '
                'echo $TUTTI_RANK of $TUTTI_SIZE ${TUTTI_JOIN-first} $TUTTI_ELASTIC')
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "1:4", "--tag-output", text=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 0 of 2 first 1:4", "[1] 1 of 2 1 1:4"])
            self.assert_lines(done.stderr, r"rank 1 \(.*pid \d+\) was killed by signal 9 \(SIGKILL\); the others go on, and a "
                                           "replacement starts now", r"1 rank failed and was replaced \(rank 1 once\)")
            os.unlink(os.path.join(self.folder, "joined"))

    def test_environment_and_stdin(self):
        text = ('env > "$0/$TUTTI_RANK.${TUTTI_JOIN-first}"; readlink /proc/self/fd/0 > "$0/$TUTTI_RANK.${TUTTI_JOIN-first}.stdin"; '
                '[ "$TUTTI_JOIN" ] || exit 3; while [ "$(ls "$0" | wc -l)" -lt 12 ]; do sleep 0.02; done')
        numbers = set()
        done = self.shell("--elastic", "2:3", "--recorder", "off", text=text, input="text",
                          env=clean_environment(TUTTI_JOIN="7", TUTTI_ELASTIC="5:6", MINE="a b"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(3):
            files = [name for name in self.noted() if name.startswith(f"{rank}.") and not name.endswith(".stdin")]
            first, second = (self.variables(name) for name in (f"{rank}.first", *[f for f in files if f != f"{rank}.first"]))
            self.assertNotIn("TUTTI_JOIN", first)
            self.assertEqual(first["TUTTI_ELASTIC"], "2:3")
            numbers.add(second["TUTTI_JOIN"])
            self.assertEqual({**first, "TUTTI_JOIN": second["TUTTI_JOIN"]}, second)
            with open(f"{self.folder}/{rank}.{second['TUTTI_JOIN']}.stdin") as file:
                self.assertEqual(file.read(), "/dev/null\n")
        self.assertEqual(numbers, {"1", "2", "3"})

    def variables(self, name):
        with open(os.path.join(self.folder, name)) as file:
            found = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
        return {name: value for name, value in found.items() if name not in ("_", "PWD", "SHLVL")}

    def test_without_it_nobody_is_told(self):
        env = clean_environment(TUTTI_JOIN="7", TUTTI_ELASTIC="5:6")
        for where in EVERYWHERE:
            done = self.shell(*where, text='echo "${TUTTI_JOIN-none} ${TUTTI_ELASTIC-none}"', env=env)
            self.assertEqual(done.stdout, "none none\n" * 2)
        done = run(TUTTI, "run", "-np", "2", "--elastic", "1", PROBE, env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))  # no variable is unknown

    def test_one_that_fails_again_and_again_waits_longer(self):
        text = '[ $TUTTI_RANK = 0 ] && { await 3; exit 0; }; note "${TUTTI_JOIN-0}"; [ "$TUTTI_JOIN" = 3 ] || exit 3'
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "1", text=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            starts = [f"rank 1 .* exited with code 3; the others go on, and a replacement starts {when}"
                      for when in ("now", "in 1 s", "in 2 s")]
            self.assert_lines(done.stderr, *starts, r"3 ranks failed and were replaced \(rank 1 3 times\)")
            self.assertEqual(self.noted(), ["0", "1", "2", "3"])
            for name in self.noted():
                os.unlink(os.path.join(self.folder, name))

    def test_a_program_that_has_gone(self):
        for where in ((), ("--hosts", "a", *BY_AGENTS)):
            program = script(self, 'rm "$0"; exit 3')
            done = run(TUTTI, "run", *where, "--elastic", "1:1", "--restarts", "2", program)
            with open(program, "w"):  # which the test's end removes
                pass
            self.assertEqual(done.returncode, 127, done.stderr)
            lines = done.stderr.splitlines()
            self.assertRegex(lines[0], "exited with code 3; a replacement starts now$")
            self.assertRegex(lines[1], "rank 0 could not be started again: .*No such file or directory; a replacement starts in 1 s$")
            self.assertRegex(lines[2], "rank 0 could not be started again: .*; it is not replaced, because --restarts 2 allows no more$")

    def test_what_it_leaves_is_ended_first(self):
        text = ('[ "$TUTTI_JOIN" ] && { kill -0 $(cat "$0/left") 2> /dev/null && echo it lives; exit 0; }; '
                'sleep 601 & echo $! > "$0/left"; kill -9 $$')
        for where in ((), ("--hosts", "a", *BY_AGENTS)):
            done = self.shell(*where, "--elastic", "1:1", text=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(self.folder, "left")) as file:
                self.assertFalse(alive(int(file.read())))

    def test_output_of_both_arrives(self):
        text = '[ "$TUTTI_JOIN" ] && { seq 30001 60000; note joined; exit 0; }; seq 30000; printf half; kill -9 $$'
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "1", text="[ $TUTTI_RANK = 0 ] && { await joined; exit 0; }; " + text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.replace("half\n", "half"),
                             "".join(f"{i}\n" for i in range(1, 30001)) + "half" + "".join(f"{i}\n" for i in range(30001, 60001)))
            os.unlink(os.path.join(self.folder, "joined"))

    def test_output_that_nobody_reads_for_a_while(self):
        # The first process dies while some of its output is still in its pipe, as the launcher has no room for it.
        for where, sizes in ((("--hosts", "a", *BY_AGENTS), range(1216, 1344, 32)), (("--tag-output",), range(216, 296, 16))):
            for kib in sizes:
                launcher = self.start(*where, "--elastic", "1:1", text='[ "$TUTTI_JOIN" ] && { note joined; echo end; exit 0; }; '
                                      f"head -c {kib}K /dev/zero | tr '\\0' '\\n'; kill -9 $$")
                wait_until(lambda: "joined" in self.noted(), seconds=0.3)
                out, err = launcher.communicate(timeout=60)
                tag = "[0] " if where == ("--tag-output",) else ""
                self.assertEqual((launcher.returncode, len(out), out[-len(tag) - 5:]),
                                 (0, kib * 1024 * (len(tag) + 1) + len(tag) + 4, "\n" + tag + "end\n"), err)
                os.unlink(os.path.join(self.folder, "joined"))

    def test_a_rank_deep_in_the_tree(self):
        text = '[ "$TUTTI_JOIN" ] && echo $ON_HOST $TUTTI_JOIN && note joined; [ $TUTTI_RANK = 6 ] && [ -z "$TUTTI_JOIN" ] && exit 3; await joined'
        hosts = ",".join(f"h{i}" for i in range(7))
        done = self.shell("--hosts", hosts, *BY_AGENTS, "--elastic", "3", text=text)
        self.assertEqual((done.returncode, done.stdout), (0, "h6 1\n"), done.stderr)

    def test_records_of_the_dead_one_are_not_its_own(self):
        # The first process dies after three calls, the second one without any.
        program = f'[ "$TUTTI_JOIN" ] && kill -9 $$; exec {HANG_PROBE} dies'
        for where in (("-np", "4"), ("--hosts", "a:2,b:2", *BY_AGENTS)):
            done = self.shell(*where, "--elastic", "4", "--restarts", "1", "--grace", "0", text=program)
            self.assertEqual(done.returncode, 137, done.stderr)
            self.assertEqual(done.stderr.count("tutti run: rank 2 ("), 2, done.stderr)
            self.assertEqual(len(re.findall("the records say of rank 2: it ended outside of a call; its last call was call 3 of world",
                                            done.stderr)), 1, done.stderr)


class NotReplaced(Case):
    def test_more_than_the_limit(self):
        text = '[ $TUTTI_RANK = 0 ] && { outlive last; exit 0; }; [ "$TUTTI_JOIN" ] && { note last; kill -9 $$; }; exit 3'
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "1", "--restarts", "1", text=text)
            self.assertEqual(done.returncode, 137, done.stderr)
            self.assert_lines(done.stderr, r"rank 1 \(.*\) exited with code 3; the others go on, and a replacement starts now",
                              r"rank 1 \(.*\) was killed by .*; the others go on, and it is not replaced, because --restarts 1 allows "
                              "no more", r"1 rank failed and was replaced \(rank 1 once\)")
            os.unlink(os.path.join(self.folder, "last"))

    def test_too_few_are_left(self):
        text = '[ $TUTTI_RANK = 1 ] && exit 3; exec sleep 601'
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "2:3", "--restarts", "0", "--grace", "0", text=text)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assert_lines(done.stderr, r"rank 1 \(.*\) exited with code 3; it is not replaced, because --restarts 0 allows no more",
                              "only 1 process is left, and --elastic 2:3 needs 2, so the job ends; mend what makes ranks fail, or run it "
                              "again with a smaller minimum or a larger --restarts",
                              "afterwards rank 0 did not end in time and was ended")

    def test_more_are_left_than_must_be(self):
        text = ('case $TUTTI_RANK in 1) note 1; exit 3;; 2) outlive 1; note 2; exit 4;; esac; outlive 2; '
                'note $TUTTI_RANK')
        done = self.shell("-np", "4", "--elastic", "2", "--restarts", "0", text=text)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("the others go on, and it is not replaced"), 2, done.stderr)
        self.assertEqual((self.noted(), len(done.stderr.splitlines())), (["0", "1", "2", "3"], 2), done.stderr)

    def test_after_the_first_that_has_finished(self):
        text = '[ $TUTTI_RANK = 0 ] && { note finished; exit 0; }; outlive finished; exit 5'
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "2", text=text)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assert_lines(done.stderr, r"rank 1 \(.*\) exited with code 5; it is not replaced, because the job is ending")
            os.unlink(os.path.join(self.folder, "finished"))

    def test_one_whose_time_has_not_come_when_the_job_ends(self):
        text = '[ $TUTTI_RANK = 1 ] && { note "${TUTTI_JOIN-0}"; exit 3; }; outlive 3; exit 0'
        done = self.shell("-np", "2", "--elastic", "1", text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a replacement starts in 4 s\n", done.stderr)
        self.assertEqual(self.noted(), ["0", "1", "2", "3"])

    def test_one_that_the_others_have_not_admitted(self):
        text = ('[ "$TUTTI_JOIN" ] && { note $TUTTI_JOIN; exec sleep 601; }; [ $TUTTI_RANK = 1 ] && exit 3; await 1')
        for where in EVERYWHERE:
            done = self.shell(*where, "--elastic", "1", "--grace", "0.2", text=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_lines(done.stderr, "rank 1 .* replacement starts now", "the replacement of rank 1 still runs 0.2 s after the "
                              r"others have finished \(--grace\); ending it", r"1 rank failed and was replaced \(rank 1 once\)")
            os.unlink(os.path.join(self.folder, "1"))

    def test_one_that_ignores_sigterm(self):
        text = ('[ "$TUTTI_JOIN" ] && { trap "" TERM; note $TUTTI_JOIN; while :; do sleep 0.1; done; }; [ $TUTTI_RANK = 1 ] && exit 3; await 1')
        done = self.shell("-np", "2", "--elastic", "1", "--grace", "0", text=text)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_that_has_made_calls_is_waited_for(self):
        # Its records show that it takes part. It makes its calls in a world of its own.
        alone = "env -u TUTTI_JOIN TUTTI_SIZE=1 TUTTI_LOCAL_SIZE=1 " + os.path.join(TESTS, "collectives_probe") + " > /dev/null"
        text = (f'[ "$TUTTI_JOIN" ] && {{ {alone}; note called; sleep 2; echo saved; exit 0; }}; '
                '[ $TUTTI_RANK = 0 ] && exit 3; await called')
        done = self.shell("-np", "2", "--elastic", "1", "--grace", "0", text=text)
        self.assertEqual((done.returncode, done.stdout), (0, "saved\n"), done.stderr)

    def test_those_that_die_of_a_signal_to_all(self):
        for name in ("USR1", "HUP"):
            launcher = self.start("-np", "2", "--elastic", "1", text="echo ready; exec sleep 601")
            for _ in range(2):
                self.assertEqual(launcher.stdout.readline(), "ready\n")
            launcher.send_signal(getattr(signal, "SIG" + name))
            _, err = launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, 128 + getattr(signal, "SIG" + name), err)
            self.assertNotIn("a replacement starts", err)

    def test_after_a_signal_to_end(self):
        text = 'trap "exit 3" TERM INT; echo ready ${TUTTI_JOIN-first}; while :; do sleep 0.02; done'
        for where in EVERYWHERE:
            for one in (signal.SIGTERM, signal.SIGINT):
                launcher = self.start(*where, "--elastic", "1", text=text)
                for _ in range(2):
                    self.assertEqual(launcher.stdout.readline(), "ready first\n")
                launcher.send_signal(one)
                out, err = launcher.communicate(timeout=60)
                self.assertEqual((launcher.returncode, out), (128 + one, ""), err)
                self.assertNotIn("replace", err)

    def test_a_signal_while_it_waits(self):
        text = '[ $TUTTI_RANK = 1 ] && exit 3; [ $TUTTI_JOIN ] && exit 3; exec sleep 601'
        launcher = self.start("-np", "2", "--elastic", "1", text=text)
        self.assertTrue(any("starts in 2 s" in line for line in iter(launcher.stderr.readline, "")))
        launcher.terminate()
        _, err = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + signal.SIGTERM, err)
        self.assertNotIn("a replacement starts", err)

    def test_after_the_time_limit(self):
        done = self.shell("-np", "2", "--elastic", "1", "--time-limit", "3", text='[ $TUTTI_RANK = 1 ] && exit 3; exec sleep 601')
        self.assertEqual(done.returncode, 124, done.stderr)
        self.assertIn("a replacement starts in 1 s", done.stderr)
        self.assertRegex(done.stderr, r"\d ranks failed and were replaced \(rank 1 .*\)\n$")

    def test_one_whose_host_is_lost(self):
        launcher = self.start(*TWO_HOSTS, "--elastic", "1", text='[ $TUTTI_RANK = 1 ] && echo $PPID; await go')
        os.kill(int(launcher.stdout.readline()), signal.SIGKILL)
        self.assertRegex(launcher.stderr.readline(), r"^tutti run: rank 1 \(b, pid \d+\) was lost with its host: .*; the others go on, and "
                                                     "it is not replaced\n$")
        with open(os.path.join(self.folder, "go"), "w"):
            pass
        _, err = launcher.communicate(timeout=60)
        self.assertEqual((launcher.returncode, err), (125, ""))

    def test_one_that_waits_when_its_host_is_lost(self):
        text = ('[ $TUTTI_RANK = 1 ] && { note "${TUTTI_JOIN-0}"; [ "$TUTTI_JOIN" ] || echo $PPID; exit 3; }; await go')
        launcher = self.start(*TWO_HOSTS, "--elastic", "1", text=text)
        agent = int(launcher.stdout.readline())
        self.assertTrue(any("starts in 1 s" in line for line in iter(launcher.stderr.readline, "")))
        os.kill(agent, signal.SIGKILL)
        line = launcher.stderr.readline()
        while "was lost with its host" not in line:
            self.assertIn("replacement starts in", line)
            line = launcher.stderr.readline()
        with open(os.path.join(self.folder, "go"), "w"):
            pass
        _, err = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 125, err)


class Usage(Case):
    def refused(self, *flags):
        done = run(TUTTI, "run", *flags, "true")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        return done.stderr

    def test_bounds(self):
        for bad in ("0", "x", "0:2", "2:", ":2", "4:2", "2:4:6", ""):
            self.assertIn("--elastic", self.refused("-np", "2", "--elastic", bad), bad)
        self.assertIn("give --elastic 2:4", self.refused("-np", "2", "--elastic", "4:2"))
        self.assertIn("at least 3 ranks, and there are 2", self.refused("-np", "2", "--elastic", "3"))
        self.assertIn("give it 2:5, or fewer ranks", self.refused("-np", "5", "--elastic", "2:4"))
        self.assertIn("Give -np N, or --elastic 3:N", self.refused("--elastic", "3"))
        self.assertIn("there are 2", self.refused("--hosts", "a:2", "--elastic", "3:4"))

    def test_what_does_not_go_together(self):
        self.assertIn("--restarts is for --elastic", self.refused("-np", "2", "--restarts", "3"))
        self.assertIn("--restarts", self.refused("-np", "2", "--elastic", "1", "--restarts", "-1"))
        self.assertIn("--elastic is not for ranks that an mpiexec starts", self.refused("--elastic", "1:2", "--backend", "mpi"))

    def test_the_number_of_ranks(self):
        for flags, ranks, elastic in ((("--elastic", "2:3"), 3, "2:3"), (("--elastic", "1", "-np", "2"), 2, "1:2"),
                                      (("--elastic", "1:5", "-np", "2"), 2, "1:5"), (("--elastic", "2", *TWO_HOSTS), 2, "2:2")):
            done = self.shell(*flags, text="echo $TUTTI_SIZE $TUTTI_ELASTIC")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{ranks} {elastic}\n" * ranks, ""))


class RanksThatGoOn(Case):
    def test_they_admit_the_replacement(self):
        for where in (("-np", "3"), ("--hosts", "a:2,b", *BY_AGENTS)):
            done = run(TUTTI, "run", *where, "--elastic", "2", ELASTIC_PROBE, "500", "10")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()),
                             ["joined as rank 2 of 3", *(f"rank {rank} of 3 has finished" for rank in range(3))])
            self.assertIn("tutti run: 1 rank failed and was replaced (rank 1 once)\n", done.stderr)

    def test_they_finish_without_it(self):
        for where in (("-np", "3"), ("--hosts", "a:2,b", *BY_AGENTS)):
            done = run(TUTTI, "run", *where, "--elastic", "2", "--grace", "0.3", ELASTIC_PROBE, "500", "10", "--alone")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0 of 2 has finished", "rank 1 of 2 has finished"])
            self.assertIn("the replacement of rank 1 still runs", done.stderr)


class NothingIsLeft(Case):
    def test_of_replacements_when_the_launcher_is_killed(self):
        text = 'sleep 602 & echo $! $$ >> "$0/pids"; [ "$TUTTI_JOIN" ] || exit 3; exec sleep 603'
        for where in EVERYWHERE:
            launcher = self.start(*where, "--elastic", "1", text=text)
            path = os.path.join(self.folder, "pids")

            def pids():
                try:
                    with open(path) as file:
                        return [int(pid) for line in file.read().split("\n")[:-1] for pid in line.split()]
                except FileNotFoundError:
                    return []
            self.assertTrue(wait_until(lambda: len(pids()) == 8), pids())
            launcher.kill()
            launcher.wait(60)
            self.assertTrue(wait_until(lambda: not any(map(alive, pids()))), list(filter(alive, pids())))
            os.unlink(path)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
