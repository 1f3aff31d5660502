"""`tutti run`: exit codes, signals, stdin, and that nothing outlives the launcher."""

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from processes import PROBE, TESTS, TUTTI, alive, clean_environment, run, shell, state, tutti_run, wait_until


COLLECTIVES = os.path.join(TESTS, "collectives_probe")


class Basics(unittest.TestCase):
    def test_every_rank_bootstraps(self):
        done = tutti_run(4, PROBE)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.findall(r"rank (\d) of 4 by tutti run local (\d) of 4 secret ([0-9a-f]{64}) sum 10\n", done.stdout)
        self.assertEqual(sorted(r for r, _, _ in found), ["0", "1", "2", "3"])
        self.assertTrue(all(rank == local for rank, local, _ in found))
        self.assertEqual(len({secret for _, _, secret in found}), 1)
        self.assertEqual(done.stderr, "")

    def test_two_jobs_have_two_secrets_and_stores(self):
        texts = {shell(1, "echo $TUTTI_SECRET $TUTTI_JOB").stdout for _ in range(2)}
        self.assertEqual(len(texts), 2)

    def test_a_secret_that_is_set_is_kept(self):
        script = 'echo "$TUTTI_SECRET"'
        self.assertEqual(shell(1, script, env=clean_environment(TUTTI_SECRET="ours")).stdout, "ours\n")
        self.assertRegex(shell(1, script, env=clean_environment(TUTTI_SECRET="")).stdout, "^[0-9a-f]{64}\n$")

    def test_programs_one_after_the_other(self):
        done = shell(3, f"{PROBE} && {PROBE} twice")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("sum 6\n"), 9)

    def test_flags_become_variables_and_the_program_keeps_its_own(self):
        script = 'echo "$TUTTI_LANE_BYTES $TUTTI_TRANSPORT|$*"'
        done = run(TUTTI, "run", "-np", "1", "--lane-bytes", "64K", "--transport=tcp", "sh", "-c", script, "x", "-np", "7",
                   "--tag-output", "--", "--help")
        self.assertEqual(done.stdout, "64K tcp|-np 7 --tag-output -- --help\n", done.stderr)
        done = run(TUTTI, "run", "--np=1", "--", "sh", "-c", 'echo "$*"', "x", "--version")
        self.assertEqual(done.stdout, "--version\n")

    def test_a_variable_that_means_nothing_is_told_of_once_per_job(self):
        env = clean_environment(TUTTI_LANE_BYTEX="1")
        warning = ("tutti warning: the environment variable TUTTI_LANE_BYTEX means nothing to this version; "
                   "did you mean TUTTI_LANE_BYTES?\n")
        by_hand = {"TUTTI_SIZE": "2", "TUTTI_SECRET": "x"}
        with tempfile.TemporaryDirectory() as folder:
            second = subprocess.Popen([PROBE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env={**env, **by_hand, "TUTTI_STORE": f"file://{folder}", "TUTTI_RANK": "1"})
            first = run(PROBE, env={**env, **by_hand, "TUTTI_STORE": f"file://{folder}", "TUTTI_RANK": "0"})
            self.assertEqual((first.stderr, second.communicate(timeout=60)[1]), (warning, ""))
        for done in (tutti_run(4, PROBE, env=env), tutti_run(4, COLLECTIVES, env=env), run(PROBE, env=env),
                     run(TUTTI, "info", env=env), run(TUTTI, "info", "--np", "2", env=env)):
            self.assertEqual((done.returncode, done.stderr), (0, warning), done.args)
        self.assertEqual(shell(2, f"TUTTI_LANE_BYTEX=1 {PROBE}").stderr, warning)

    def test_a_job_that_keeps_going(self):
        script = 'case $TUTTI_RANK in 1) exit 3;; 2) sleep 0.3; kill -9 $$;; esac; sleep 1; echo done $TUTTI_RANK'
        done = shell(4, script, "--keep-going")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["done 0", "done 3"])
        first, second = done.stderr.splitlines()
        self.assertRegex(first, r"^tutti run: rank 1 \(.*\) exited with code 3; the others go on$")
        self.assertRegex(second, r"^tutti run: rank 2 \(.*\) was killed by signal 9 \(SIGKILL\); the others go on$")
        self.assertEqual(shell(2, "true", "--keep-going").returncode, 0)
        last = shell(1, "exit 4", "--keep-going")
        self.assertEqual(last.returncode, 4)
        self.assertTrue(last.stderr.endswith("exited with code 4; it was the last\n"), last.stderr)

    def test_omp_num_threads(self):
        self.assertRegex(shell(1, "echo $OMP_NUM_THREADS").stdout, r"^[1-9]\d*\n$")
        cores = len(os.sched_getaffinity(0))
        self.assertEqual(shell(cores + 1, "echo $OMP_NUM_THREADS").stdout, "1\n" * (cores + 1))
        kept = shell(1, "echo $OMP_NUM_THREADS", env=clean_environment(OMP_NUM_THREADS="7"))
        self.assertEqual(kept.stdout, "7\n")
        self.assertIn("OMP_NUM_THREADS", shell(1, "true", "--log", "info").stderr)

    def test_bind(self):
        program = [sys.executable, "-c", "import os; os.write(1, ' '.join([os.environ['TUTTI_RANK'], os.environ['OMP_NUM_THREADS'],"
                   "*map(str, sorted(os.sched_getaffinity(0)))]).encode() + b'\\n')"]
        cores = os.sched_getaffinity(0)

        def of_ranks(*flags):
            done = tutti_run(len(cores) + 1, *program, flags=flags)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = sorted([int(word) for word in line.split()] for line in done.stdout.splitlines())
            self.assertEqual([line[:2] for line in lines], [[rank, 1] for rank in range(len(cores) + 1)])
            return [line[2:] for line in lines]
        bound = of_ranks("--bind", "core")
        self.assertEqual({core for core, in bound[:-1]}, cores)  # each has one, and all are used
        self.assertEqual(bound[-1], bound[0])
        for flags in ([], ["--bind", "none"]):
            self.assertEqual(of_ranks(*flags), [sorted(cores)] * (len(cores) + 1))
        self.assertIn("--bind", tutti_run(1, "true", flags=["--bind", "socket"]).stderr)

    def test_ranks_bound_to_a_core_each_are_not_crowded(self):
        cores = len(os.sched_getaffinity(0))
        flags = ["--bind", "core", "--log", "info"]
        said = tutti_run(cores, COLLECTIVES, "--who", flags=flags)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertNotIn("cores here", said.stderr)
        said = tutti_run(cores + 1, COLLECTIVES, "--who", flags=flags)
        self.assertIn(f"{cores + 1} ranks share {cores} cores here", said.stderr)

    def test_an_outer_launcher_is_not_seen(self):
        env = clean_environment(RANK="5", WORLD_SIZE="9", MASTER_ADDR="nowhere", MASTER_PORT="1",
                                OMPI_COMM_WORLD_RANK="3", OMPI_COMM_WORLD_SIZE="8", TUTTI_STORE="tcp://nowhere:1")
        done = tutti_run(2, PROBE, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("sum 3\n"), 2)
        self.assertEqual(tutti_run(1, TUTTI, "run", "-np", "2", PROBE).stdout.count("sum 3\n"), 2)

    def test_many_ranks(self):
        done = tutti_run(24, PROBE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(f"sum {sum(range(1, 25))}\n"), 24)


class ExitCodes(unittest.TestCase):
    def test_success(self):
        done = shell(3, "true")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_first_failing_rank(self):
        done = shell(3, '[ $TUTTI_RANK = 1 ] && exit 7; exec sleep 600', "--grace", "0")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^tutti run: rank 1 \(pid \d+\) exited with code 7\n"
                                      r"tutti run: afterwards ranks 0, 2 did not end in time and were ended\n$")

    def test_killed_rank(self):
        done = shell(3, '[ $TUTTI_RANK = 2 ] && kill -9 $$; exec sleep 600', "--grace", "0")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertRegex(done.stderr, r"^tutti run: rank 2 \(pid \d+\) was killed by signal 9 \(SIGKILL\)\n")

    def test_the_others_get_time_for_their_own_words(self):
        # Rank 0 fails; rank 1 sees it a moment later, says what it knows and fails on its own.
        with tempfile.TemporaryDirectory() as folder:
            script = (f'if [ $TUTTI_RANK = 0 ]; then echo $$ > {folder}/pid; exit 3; fi; '
                      f'while ! [ -s {folder}/pid ] || kill -0 $(cat {folder}/pid) 2>/dev/null; do sleep 0.01; done; '
                      'echo "rank 0 has gone" >&2; exit 4')
            done = shell(2, script, "--grace", "30")
        self.assertEqual(done.returncode, 3)
        self.assertIn("rank 0 has gone\n", done.stderr)
        self.assertIn("afterwards rank 1 exited with code 4\n", done.stderr)

    def test_rank_that_ignores_sigterm(self):
        done = shell(2, '[ $TUTTI_RANK = 0 ] && exit 1; trap "" TERM; while :; do sleep 1; done', "--grace", "0")
        self.assertEqual(done.returncode, 1)

    def test_stopped_rank(self):
        done = shell(2, '[ $TUTTI_RANK = 0 ] && exit 1; kill -STOP $$', "--grace", "0")
        self.assertEqual(done.returncode, 1)

    def test_not_found(self):
        done = tutti_run(2, "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertRegex(done.stderr, r"^tutti run: .*'no-such-program'.*\n$")
        self.assertEqual(tutti_run(2, "/etc/passwd/x").returncode, 127)

    def test_not_executable(self):
        done = tutti_run(2, "/etc/passwd")
        self.assertEqual(done.returncode, 126)
        self.assertEqual(done.stderr.count("\n"), 1)
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
            script.write("#!/no/such/interpreter\n")
            script.flush()
            os.chmod(script.name, 0o700)
            copy = script.name + "x"
            os.link(script.name, copy)
        try:
            done = tutti_run(2, copy)
        finally:
            os.unlink(copy)
        self.assertEqual(done.returncode, 127)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_bad_counts(self):
        for count in ("0", "-1", "x", "1e3", "99999999999"):
            done = tutti_run(count, "true")
            self.assertEqual(done.returncode, 2, count)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(run(TUTTI, "run", "true").returncode, 2)
        self.assertEqual(run(TUTTI, "run", "-np", "2").returncode, 2)

    def test_time_limit(self):
        done = shell(2, "exec sleep 600", "--time-limit", "0.3")
        self.assertEqual(done.returncode, 124)
        self.assertIn("time limit of 0.3 s", done.stderr)


class Input(unittest.TestCase):
    def test_goes_to_rank_0_only(self):
        done = shell(3, 'printf "%s:%s\\n" $TUTTI_RANK "$(cat)"', input="one\ntwo\n")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0:one", "1:", "2:", "two"])

    def test_file(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"from a file\n")
            file.seek(0)
            self.assertEqual(shell(2, "cat", stdin=file).stdout, "from a file\n")

    def test_closed(self):
        done = shell(2, "cat; echo done", preexec_fn=lambda: os.close(0))
        self.assertEqual((done.returncode, done.stdout), (0, "done\n" * 2))

    def test_terminal(self):
        child, terminal = pty.fork()
        if child == 0:
            try:
                os.execve(TUTTI, [TUTTI, "run", "-np", "2", "sh", "-c", "read -r line && echo $TUTTI_RANK got $line || true"],
                          clean_environment())
            finally:
                os._exit(127)
        os.write(terminal, b"typed\n")
        heard = b""
        try:
            while True:
                heard += os.read(terminal, 4096)
        except OSError:  # EIO: the other side has gone
            pass
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, heard)
        self.assertIn(b"0 got typed", heard)


class Signals(unittest.TestCase):
    def start(self, script, ranks=2, **options):
        launcher = subprocess.Popen([TUTTI, "run", "-np", str(ranks), "sh", "-c", script], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=clean_environment(), **options)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        return launcher

    def test_forwarded(self):
        for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
            with self.subTest(name):
                launcher = self.start(f'trap "echo {name}; exit 0" {name}; echo ready; while :; do sleep 0.02; done')
                for _ in range(2):
                    self.assertEqual(launcher.stdout.readline(), "ready\n")
                launcher.send_signal(getattr(signal, "SIG" + name))
                out, err = launcher.communicate(timeout=60)
                ends = name in ("INT", "TERM")  # the job, whatever the ranks return
                self.assertEqual((launcher.returncode, out), (128 + getattr(signal, "SIG" + name) if ends else 0, f"{name}\n" * 2))
                self.assertNotIn("tutti run:", err)

    def test_stopped_and_continued_together(self):
        launcher = self.start("echo $$; exec sleep 600")
        everyone = [launcher.pid] + [int(launcher.stdout.readline()) for _ in range(2)]
        for name, stopped in (("TSTP", True), ("CONT", False), ("TSTP", True), ("CONT", False)):
            launcher.send_signal(getattr(signal, "SIG" + name))
            self.assertTrue(wait_until(lambda: all((state(pid) == "T") == stopped for pid in everyone)), name)
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + signal.SIGTERM)

    def test_ranks_that_die_of_it(self):
        launcher = self.start("echo ready; exec sleep 600")
        for _ in range(2):
            launcher.stdout.readline()
        launcher.send_signal(signal.SIGTERM)
        out, err = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + signal.SIGTERM)
        self.assertIn("(SIGTERM)", err)

    def test_second_interrupt_ends_the_stubborn(self):
        launcher = self.start('trap "echo no" INT; echo ready; while :; do sleep 0.02; done', ranks=1)
        self.assertEqual(launcher.stdout.readline(), "ready\n")
        launcher.send_signal(signal.SIGINT)
        self.assertEqual(launcher.stdout.readline(), "no\n")
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + signal.SIGINT)


class NothingIsLeft(unittest.TestCase):
    # Each rank starts a child in its group, one in a session of its own, and an orphan; then all sleep.
    FAMILY = ('sleep 601 & echo $! >> "$0"; setsid sh -c \'echo $$ >> "$0"; exec sleep 602\' "$0" & '
              '(sleep 603 & echo $! >> "$0"); echo $$ >> "$0"; ')

    def family(self, ranks, script, count=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.list = os.path.join(folder.name, "pids")
        launcher = subprocess.Popen([TUTTI, "run", "-np", str(ranks), "sh", "-c", self.FAMILY + script, self.list],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                    env=clean_environment(), start_new_session=True)
        self.assertTrue(wait_until(lambda: len(self.pids()) == 4 * ranks), self.pids())
        return launcher

    def pids(self):
        try:
            with open(self.list) as file:
                return [int(line) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def assert_all_gone(self):
        self.assertTrue(wait_until(lambda: not any(map(alive, self.pids()))), list(filter(alive, self.pids())))

    def test_launcher_killed(self):
        launcher = self.family(3, "exec sleep 604")
        self.assertTrue(all(map(alive, self.pids())))
        launcher.kill()
        launcher.wait(60)
        self.assert_all_gone()

    def test_launchers_group_killed(self):
        launcher = self.family(2, "exec sleep 604")
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait(60)
        self.assert_all_gone()

    def test_launcher_killed_while_ranks_are_stopped(self):
        launcher = self.family(2, "kill -STOP $$")
        launcher.kill()
        launcher.wait(60)
        self.assert_all_gone()

    def test_after_a_failure(self):
        launcher = self.family(2, '[ $TUTTI_RANK = 0 ] && kill -9 $$; exec sleep 604')
        self.assertEqual(launcher.wait(60), 128 + 9)
        self.assertEqual([pid for pid in self.pids() if alive(pid)], [])

    def test_after_success(self):
        launcher = self.family(2, 'while [ $(wc -l < "$0") -lt 8 ]; do sleep 0.02; done; exit 0')
        self.assertEqual(launcher.wait(60), 0)
        self.assertEqual([pid for pid in self.pids() if alive(pid)], [])

    def test_guard_goes_too(self):
        def guards():
            found = set()
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/comm") as file:
                        name = file.read()
                    with open(f"/proc/{pid}/stat") as file:
                        parent = int(file.read().rsplit(")", 1)[1].split()[1])
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if name == "tutti-guard\n":
                    found.add((int(pid), parent))
            return found

        launcher = self.family(1, "exec sleep 604")
        def its_guards():
            return [pid for pid, parent in guards() if parent == launcher.pid]

        self.assertTrue(wait_until(its_guards))
        mine = its_guards()
        self.assertEqual(len(mine), 1)
        launcher.kill()
        launcher.wait(60)
        self.assertTrue(wait_until(lambda: not alive(mine[0])))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
