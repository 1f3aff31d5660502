"""`tutti run --hosts` with a remote start that stays on this host: agents, exit codes, signals, streams, what goes wrong."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from processes import PROBE, TESTS, TUTTI, alive, clean_environment, run, script, wait_until

COLLECTIVES = os.path.join(TESTS, "collectives_probe")
HERE = ["--remote-start", "env ON_HOST={host}"]


def on_hosts(hosts, *words, flags=(), **options):
    return run(TUTTI, "run", "--hosts", hosts, *HERE, *flags, *words, **options)


def shell(hosts, script, *flags, **options):
    return on_hosts(hosts, "sh", "-c", script, flags=flags, **options)


class Places(unittest.TestCase):
    def places(self, *words, **options):
        done = run(TUTTI, "run", *words, *HERE, "sh", "-c",
                   "echo $TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE $ON_HOST", **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(done.stdout.splitlines())

    def test_slots(self):
        self.assertEqual(self.places("--hosts", "a:2,b,c:2"), ["0 5 0 2 a", "1 5 1 2 a", "2 5 0 1 b", "3 5 0 2 c", "4 5 1 2 c"])

    def test_fewer_ranks_than_slots(self):
        self.assertEqual(self.places("-np", "3", "--hosts", "a:2,b:2,c:2"), ["0 3 0 2 a", "1 3 1 2 a", "2 3 0 1 b"])

    def test_oversubscribed(self):
        self.assertEqual(self.places("-np", "6", "--hosts", "a,b:2", "--oversubscribe"),
                         ["0 6 0 2 a", "1 6 1 2 a", "2 6 0 4 b", "3 6 1 4 b", "4 6 2 4 b", "5 6 3 4 b"])

    def test_by_node(self):
        self.assertEqual(self.places("--hosts", "a:2,b:2", "--map-by", "node"), ["0 4 0 2 a", "1 4 0 2 b", "2 4 1 2 a", "3 4 1 2 b"])

    def test_bind(self):
        cores = sorted(os.sched_getaffinity(0))
        program = "import os; os.write(1, f\"{os.environ['TUTTI_RANK']} {min(os.sched_getaffinity(0))}\\n\".encode())"
        done = on_hosts("a:2,b", sys.executable, "-c", program, flags=["--bind", "core"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        of_ranks = [int(line.split()[1]) for line in sorted(done.stdout.splitlines())]  # one core in each line
        self.assertEqual(len(set(of_ranks[:2])), min(len(cores), 2))
        self.assertEqual(of_ranks[2], of_ranks[0])  # the first of its host

    def test_named_twice(self):
        self.assertEqual(self.places("--hosts", "a,b,a"), ["0 3 0 2 a", "1 3 1 2 a", "2 3 0 1 b"])

    def test_hostfile(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("# two hosts\na slots=2\n\nb:1  # the last\n")
            file.flush()
            self.assertEqual(self.places("--hostfile", file.name), ["0 3 0 2 a", "1 3 1 2 a", "2 3 0 1 b"])

    def test_this_host_needs_no_remote_start(self):
        done = run(TUTTI, "run", "--hosts", "localhost:3", "--remote-start", "/no/such/program", PROBE)
        self.assertEqual((done.returncode, done.stdout.count("local 0 of 3"), done.stdout.count("sum 6\n")), (0, 1, 3), done.stderr)

    def test_host_is_the_last_word_where_none_is_named(self):
        start = script(self, 'echo "welcome to $1"; export ON_HOST=$1; shift; exec "$@"')
        done = run(TUTTI, "run", "--hosts", "a,b", "--remote-start", start, "sh", "-c", "echo $ON_HOST")
        self.assertEqual((done.returncode, sorted(done.stdout.split())), (0, ["a", "b"]), done.stderr)  # no banner

    def test_they_meet(self):
        done = on_hosts("a:3,b:2,c:1", PROBE)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.findall(r"rank (\d) of 6 by tutti run local (\d) of (\d) secret ([0-9a-f]{64}) sum 21\n", done.stdout)
        self.assertEqual(sorted(found), [(str(r), str(l), str(s), found[0][3]) for r, (l, s) in
                                         enumerate([(0, 3), (1, 3), (2, 3), (0, 2), (1, 2), (0, 1)])])

    def test_variables(self):
        script = 'echo "$TUTTI_LANE_BYTES $TUTTI_TRANSPORT $MINE $THEIRS ${NOT_MINE-unset}"'
        done = run(TUTTI, "run", "--hosts", "a", "--remote-start", "env -i PATH=/usr/bin:/bin HOST={host}", "-x", "MINE", "-x",
                   "THEIRS=x y", "--lane-bytes", "64K", "sh", "-c", script,
                   env=clean_environment(MINE="1 2", NOT_MINE="3", TUTTI_TRANSPORT="tcp"))
        self.assertEqual(done.stdout, "64K tcp 1 2 x y unset\n", done.stderr)

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(shell("a,b", "pwd", cwd=folder).stdout, f"{os.path.realpath(folder)}\n" * 2)



class Racks(unittest.TestCase):
    """Hosts of one machine that take themselves for several, in racks as the list says, as the environment does, or as SLURM does."""

    def on(self, hosts, *words, start="env TUTTI_HOST_ID={host}"):
        done = run(TUTTI, "run", "--hosts", hosts, "--remote-start", start, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def racks(self, *words, **options):
        """The rack of each rank, as all have it."""
        return re.findall(r"^rank \d+ on \S+?(?: in (\S+))?, process", self.on(*words, TUTTI, "info", "--routes", **options), re.M)

    def test_every_algorithm_has_the_same_results(self):
        for hosts in ("a:2@r1,b:1@r2,c:2@r1,d:1@r2", "a:1@p1/r1,b:1@p1/r2,c:1@p2/r1,d:1@p2/r1,e:2@p1/r1"):
            self.assertRegex(self.on(hosts, COLLECTIVES), r"played \d+ calls by \d+ algorithms on 6 ranks of [45] hosts\n")

    def test_the_list_tells_them(self):
        self.assertEqual(self.racks("a:2@r1,b:1@pod/r2"), ["r1", "r1", "pod/r2"])
        self.assertEqual(self.racks("a:1,b:1"), ["", ""])

    def test_each_host_tells_its_own(self):
        self.assertEqual(self.racks("a:2,b:1", start="env TUTTI_HOST_ID={host} TUTTI_RACK=rack-of-{host}"),
                         ["rack-of-a", "rack-of-a", "rack-of-b"])
        self.assertEqual(self.racks("a:1@r7,b:1", start="env TUTTI_HOST_ID={host} TUTTI_RACK=rack-of-{host}"), ["r7", "rack-of-b"])

    def test_slurm_tells_them(self):
        start = "env TUTTI_HOST_ID={host} SLURM_TOPOLOGY_ADDR=s0.leaf-{host}.{host} SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node"
        self.assertEqual(self.racks("a:1,b:2", start=start), ["s0/leaf-a", "s0/leaf-b", "s0/leaf-b"])

    def test_that_of_the_launcher_is_not_that_of_others(self):
        done = run(TUTTI, "run", "--hosts", "a,b", "--remote-start", "env -u TUTTI_RACK ON_HOST={host}", "sh", "-c", "echo ${TUTTI_RACK:-none}",
                   env=clean_environment(TUTTI_RACK="r1"))
        self.assertEqual(done.stdout, "none\nnone\n", done.stderr)

    def test_what_is_no_rack(self):
        done = run(TUTTI, "run", "--hosts", "a:1@r 1", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'r 1' names no rack", done.stderr)
        done = run(TUTTI, "info", "--np", "1", env=clean_environment(TUTTI_RACK="a//b"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("'a//b' names no rack; write", done.stderr)

class Mistakes(unittest.TestCase):
    def refuse(self, code, *parts, words=None, flags=(), hosts="a:2", **options):
        done = run(TUTTI, "run", *(("--hosts", hosts) if hosts else ()), *flags, *(words or ["true"]), **options)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done.stderr)
        for part in ("tutti run: ", *parts):
            self.assertIn(part, done.stderr)

    def test_lists(self):
        for hosts, part in (("a:0", "a:0"), ("a:x", "h1:2"), ("a,,b", "names no host"), ("-oProxyCommand=x", "names no host"),
                            ("[::1", "names no host"), ("fd00::1", "brackets"), ("a;b", "names no host")):
            self.refuse(2, part, hosts=hosts)

    def test_hostfiles(self):
        self.refuse(2, "/no/such/file", hosts=None, flags=["--hostfile", "/no/such/file"])
        self.refuse(2, "--hosts and --hostfile", flags=["--hostfile", "/dev/null"])
        self.refuse(2, "names no host", hosts=None, flags=["--hostfile", "/dev/null"])
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("a\nb max=2\n")
            file.flush()
            self.refuse(2, file.name + ":2", hosts=None, flags=["--hostfile", file.name])

    def test_more_ranks_than_slots(self):
        self.refuse(2, "-np 5", "(3)", "--oversubscribe", "a:4", hosts="a:2,b", flags=["-np", "5"])

    def test_unknown_variable(self):
        self.refuse(2, "-x NO_SUCH_ONE", flags=["-x", "NO_SUCH_ONE"])

    def test_no_remote_start(self):
        self.refuse(127, "'no-such-command'", "--remote-start", flags=["--remote-start", "no-such-command {host}"])

    def test_unknown_host(self):
        # As ssh would: the last line that it says is the reason, and its code is told.
        start = script(self, 'echo "a banner" >&2; [ $1 = a ] || { echo "ssh: Could not resolve hostname $1" >&2; exit 255; }; '
                             'shift; exec "$@"')
        self.refuse(125, "'nowhere'", "code 255", "(ssh: Could not resolve hostname nowhere)", "check the host's name",
                    hosts="a,nowhere", flags=["--remote-start", start])

    def test_no_tutti_there(self):
        self.refuse(125, "'a'", "code 127", "No such file", "--remote-tutti",
                    flags=["--remote-start", "env HOST={host}", "--remote-tutti", "/no/such/tutti"])

    def test_another_version_there(self):
        old = script(self, "printf '\\002tutti agent 0.0.0\\n'; exec cat > /dev/null")
        self.refuse(125, "'a'", "0.0.0", "one version", flags=[*HERE, "--remote-tutti", old])

    def test_no_program_there(self):
        self.refuse(127, "host 'a': cannot run 'no-such-program'", words=["no-such-program"], flags=HERE)
        self.refuse(126, "host 'a': cannot run '/etc/passwd'", words=["/etc/passwd"], flags=HERE)

    def test_no_answer(self):
        start = script(self, "exec sleep 600")
        self.refuse(125, "'a'", "0.3 s", flags=["--remote-start", start, "--connect-timeout", "0.3"])


class Ends(unittest.TestCase):
    def test_success(self):
        done = shell("a:2,b:2", "true")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_first_failing_rank(self):
        done = shell("a:2,b:2", "[ $TUTTI_RANK = 2 ] && exit 7; exec sleep 600", "--grace", "0")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^tutti run: rank 2 \(b, pid \d+\) exited with code 7\n"
                                      r"tutti run: afterwards ranks 0, 1, 3 did not end in time and were ended\n$")

    def test_killed_rank(self):
        done = shell("a,b", "[ $TUTTI_RANK = 1 ] && kill -9 $$; trap '' TERM; while :; do sleep 1; done", "--grace", "0")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertRegex(done.stderr, r"^tutti run: rank 1 \(b, pid \d+\) was killed by signal 9 \(SIGKILL\)\n")

    def test_time_limit(self):
        done = shell("a,b", "exec sleep 600", "--time-limit", "0.5")
        self.assertEqual(done.returncode, 124)


class Streams(unittest.TestCase):
    def test_input_goes_to_rank_0(self):
        text = "".join(f"line {i}\n" for i in range(50000))  # several windows
        done = shell("a:2,b", 'printf "%s:%s\\n" $TUTTI_RANK "$(md5sum)"', input=text)
        lines = sorted(done.stdout.splitlines())
        sums = [subprocess.run(["md5sum"], input=t, capture_output=True, text=True).stdout.strip() for t in (text, "", "")]
        self.assertEqual(lines, [f"{i}:{s}" for i, s in enumerate(sums)])

    def test_input_that_nobody_reads(self):
        done = shell("a,b", "exit 0", input="x" * 1000000)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_output_is_untouched(self):
        self.assertEqual(shell("a", "printf 'a\\nb'; printf c >&2").stdout, "a\nb")
        done = shell("a", "seq 1000000; seq 300000 >&2")
        self.assertEqual([done.stdout, done.stderr], ["".join(f"{i}\n" for i in range(1, n + 1)) for n in (1000000, 300000)])

    def test_tagged(self):
        done = shell("a:2,b:2", "i=0; while [ $i -lt 200 ]; do echo $i; echo e$i >&2; i=$((i+1)); done; printf end", "--tag-output")
        for lines, prefix, end in ((done.stdout.splitlines(), "", ["end"]), (done.stderr.splitlines(), "e", [])):
            for rank in range(4):
                mine = [line for line in lines if line.startswith(f"[{rank}] ")]
                self.assertEqual(mine, [f"[{rank}] {prefix}{i}" for i in range(200)] + [f"[{rank}] {e}" for e in end])

    def test_reader_that_goes(self):
        with subprocess.Popen([TUTTI, "run", "--hosts", "a", *HERE, "yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env=clean_environment()) as launcher:
            self.assertEqual(launcher.stdout.readline(), b"y\n")
            launcher.stdout.close()
            self.assertEqual(launcher.wait(60), 128 + signal.SIGPIPE)

    def test_reader_that_pauses(self):
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "note")
            launcher = subprocess.Popen([TUTTI, "run", "--hosts", "a,b", *HERE, "sh", "-c", "[ $TUTTI_RANK = 1 ] && { echo there > $0; "
                                         "exit 0; }; seq 1000000; echo done > $0.all", note],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
            self.assertTrue(wait_until(lambda: os.path.exists(note)))
            self.assertFalse(os.path.exists(note + ".all"))  # 7 MB are more than the windows and the launcher keep
            out, _ = launcher.communicate(timeout=60)
        self.assertEqual((launcher.returncode, out.decode()), (0, "".join(f"{i}\n" for i in range(1, 1000001))))


class Jobs(unittest.TestCase):
    """What has to be looked at while it runs."""

    # Each rank writes down its own number, and those of a child in its group and of one in a session of its own.
    FAMILY = 'sleep 601 & echo $! >> "$0"; setsid sh -c \'echo $$ >> "$0"; exec sleep 602\' "$0" & echo $$ >> "$0"; '

    def start(self, script="exec sleep 604", flags=(), hosts="a:2,b:2"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.list = os.path.join(folder.name, "pids")
        launcher = subprocess.Popen([TUTTI, "run", "--hosts", hosts, *HERE, *flags, "sh", "-c", self.FAMILY + script, self.list],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=clean_environment(), start_new_session=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        self.addCleanup(launcher.stdout.close)
        self.addCleanup(launcher.stderr.close)
        self.assertTrue(wait_until(lambda: len(self.pids()) == 12), self.pids())
        return launcher

    def pids(self):
        try:
            with open(self.list) as file:
                return [int(line) for line in file.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def agents(self, launcher):
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children") as file:
            children = file.read().split()
        found = []
        for pid in children:
            with open(f"/proc/{pid}/cmdline") as file:
                if file.read().split("\0")[1:2] == ["agent"]:
                    found.append(int(pid))
        return sorted(found)

    def assert_all_gone(self):
        self.assertTrue(wait_until(lambda: not any(map(alive, self.pids()))), list(filter(alive, self.pids())))

    def test_launcher_killed(self):
        launcher = self.start()
        agents = self.agents(launcher)
        self.assertEqual(len(agents), 2)
        launcher.kill()
        launcher.wait(60)
        self.assert_all_gone()
        self.assertTrue(wait_until(lambda: not any(map(alive, agents))))

    def test_agent_killed(self):
        launcher = self.start(flags=["--grace", "0"])
        os.kill(self.agents(launcher)[1], signal.SIGKILL)
        _, err = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 125)
        self.assertRegex(err, r"^tutti run: rank [23] \(b, pid \d+\) was lost with its host: 'env ON_HOST=b' was killed by signal 9\n")
        self.assert_all_gone()

    def test_silent_agent(self):
        launcher = self.start(flags=["--grace", "0", "--silence", "2"])
        os.kill(self.agents(launcher)[1], signal.SIGSTOP)
        _, err = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 125)
        self.assertRegex(err, r"^tutti run: rank [23] \(b, pid \d+\) was lost with its host: nothing was heard of it for 2 s \(--silence\)\n")
        self.assert_all_gone()

    def test_silent_launcher(self):
        launcher = self.start(flags=["--silence", "2"])
        os.kill(launcher.pid, signal.SIGSTOP)
        self.assert_all_gone()
        os.kill(launcher.pid, signal.SIGCONT)
        launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 125)

    def test_stopped_from_the_terminal(self):
        # Then nobody takes the silence for the end, though it lasts.
        launcher = self.start(flags=["--silence", "2"])
        launcher.send_signal(signal.SIGTSTP)
        self.assertFalse(wait_until(lambda: not all(map(alive, self.pids())), seconds=5))
        launcher.send_signal(signal.SIGCONT)
        launcher.send_signal(signal.SIGTERM)
        launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + signal.SIGTERM)
        self.assert_all_gone()

    def test_signals_are_passed_on(self):
        for name in ("INT", "TERM", "USR1"):
            launcher = self.start(f'trap "echo {name}; exit 0" {name}; echo ready; while :; do sleep 0.02; done')
            for _ in range(4):
                self.assertEqual(launcher.stdout.readline(), "ready\n")
            launcher.send_signal(getattr(signal, "SIG" + name))
            out, _ = launcher.communicate(timeout=60)
            code = {"INT": 128 + signal.SIGINT, "TERM": 128 + signal.SIGTERM}.get(name, 0)
            self.assertEqual((launcher.returncode, out), (code, f"{name}\n" * 4))
            self.assert_all_gone()

    def test_after_a_failure(self):
        launcher = self.start('while [ $(wc -l < "$0") -lt 12 ]; do sleep 0.02; done; [ $TUTTI_RANK = 0 ] && kill -9 $$; exec sleep 604')
        self.assertEqual(launcher.wait(60), 128 + 9)
        self.assertEqual([pid for pid in self.pids() if alive(pid)], [])

    def test_one_host_ends_before_the_other(self):
        # What host a's ranks have left is ended with the job, and not before; nobody ends what is host b's.
        launcher = self.start('while [ $(wc -l < "$0") -lt 12 ]; do sleep 0.02; done; [ $TUTTI_RANK -lt 2 ] && exit 0; '
                              'while [ ! -e "$0.go" ]; do sleep 0.02; done; echo $TUTTI_RANK')
        open(self.list + ".go", "w").close()
        out, err = launcher.communicate(timeout=60)
        self.assertEqual((launcher.returncode, sorted(out.split()), err), (0, ["2", "3"], ""))
        self.assert_all_gone()

    def test_the_secret_is_on_no_command_line(self):
        launcher = self.start("echo $TUTTI_SECRET; exec sleep 604")
        secret = launcher.stdout.readline().strip()
        self.assertRegex(secret, "^[0-9a-f]{64}$")
        seen = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    self.assertNotIn(secret.encode(), file.read())
                    seen += 1
            except (FileNotFoundError, ProcessLookupError):
                continue
        self.assertGreater(seen, 4)
        launcher.terminate()
        launcher.communicate(timeout=60)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
