"""`tutti run --hosts` with a tree of agents: who starts whom and what it costs, a thousand agents, slow starts, and what is
left when a host inside the tree, the launcher or a rank dies. All hosts are this one: `env` is the remote start."""

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from processes import TUTTI, alive, clean_environment, run, script, wait_until

START = "env ON_HOST={host}"
PR_SET_CHILD_SUBREAPER = 36


def names(count):
    return [f"h{i}" for i in range(count)]


def words(count, *program, flags=(), fan_out=4, start=START):
    return [TUTTI, "run", "--hosts", ",".join(names(count)), "--remote-start", start, "--fan-out", str(fan_out), *flags, *program]


def branches(first, count, most):
    """The hosts below `first`, each with how many it has in its branch: as tools/run/tree.cpp splits them."""
    found, rest = [], count
    parts = min(rest, most)
    for i in range(parts):
        begin, end = rest * i // parts, rest * (i + 1) // parts
        found.append((first + begin, end - begin))
    return found


def parents(count, most):
    """The host that starts each; None: the launcher."""
    found = {}

    def walk(above, first, size):
        for begin, length in branches(first, size, most):
            found[begin] = above
            walk(begin, begin + 1, length - 1)
    walk(None, 0, count)
    return found


class Running:
    """A job of one rank a host, each of which notes its pid and a child's, and waits."""

    PROGRAM = 'sleep 601 & echo $! $$ >> "$0"; exec sleep 602'

    def __init__(self, case, hosts, fan_out=4, flags=(), program=PROGRAM):
        folder = tempfile.TemporaryDirectory()
        case.addCleanup(folder.cleanup)
        self.note = os.path.join(folder.name, "pids")
        self.hosts = hosts
        self.launcher = subprocess.Popen(words(hosts, "sh", "-c", program, self.note, fan_out=fan_out, flags=flags),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         env=clean_environment(TREE_TEST=self.note), start_new_session=True)
        case.addCleanup(lambda: self.launcher.poll() is None and self.launcher.kill())
        case.addCleanup(self.launcher.stdout.close)
        case.addCleanup(self.launcher.stderr.close)
        case.assertTrue(wait_until(lambda: len(self.pids()) == 2 * hosts, seconds=60), len(self.pids()))
        self.agents = self.found_agents()
        case.assertEqual(sorted(self.agents), sorted(names(hosts)))

    def pids(self):
        try:
            with open(self.note) as file:
                return [int(pid) for line in file.read().split("\n")[:-1] for pid in line.split()]
        except FileNotFoundError:
            return []

    def found_agents(self):
        """By host; this job's alone."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read().split(b"\0")[1:2] != [b"agent"]:
                        continue
                with open(f"/proc/{pid}/environ") as file:
                    variables = dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)
                with open(f"/proc/{pid}/comm") as file:
                    if file.read() == "tutti-guard\n":
                        continue
            except (FileNotFoundError, ProcessLookupError):
                continue
            if variables.get("TREE_TEST") == self.note:
                found[variables["ON_HOST"]] = int(pid)
        return found

    def assert_all_gone(self, case):
        everything = [*self.pids(), *self.agents.values()]
        case.assertTrue(wait_until(lambda: not any(map(alive, everything))), list(filter(alive, everything)))
        case.assertTrue(wait_until(lambda: not self.found_agents()))


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


class Tree(unittest.TestCase):
    def test_who_starts_whom(self):
        job = Running(self, 64)
        above = parents(64, 4)
        depth = {None: 0}
        for host in sorted(above):  # a host comes behind the one that starts it
            depth[host] = depth[above[host]] + 1
            expected = job.launcher.pid if above[host] is None else job.agents[f"h{above[host]}"]
            self.assertEqual(parent_of(job.agents[f"h{host}"]), expected, host)
        self.assertEqual(max(depth.values()), 3)
        job.launcher.terminate()
        job.launcher.communicate(timeout=60)
        job.assert_all_gone(self)

    def test_output_input_and_places(self):
        text = "".join(f"line {i}\n" for i in range(20000))
        done = run(*words(21, "sh", "-c", 'echo $TUTTI_RANK $TUTTI_LOCAL_RANK $TUTTI_SIZE $ON_HOST $(md5sum | cut -c 1-32)'), input=text)
        sums = [subprocess.run(["md5sum"], input=t, capture_output=True, text=True).stdout[:32] for t in (text, "")]
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"{i} 0 21 h{i} {sums[i > 0]}" for i in range(21)))

    def test_this_host_is_among_them(self):
        # It is started by the launcher itself, wherever it stands in the list, and starts no others.
        listed = ["h0", "h1", "localhost", *(f"h{i}" for i in range(2, 20))]
        done = run(TUTTI, "run", "--hosts", ",".join(listed), "--remote-start", START, "--fan-out", "3", "sh", "-c",
                   "echo $TUTTI_RANK ${ON_HOST-none}", env=clean_environment(TUTTI_LOG="debug"))
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"{i} {'none' if name == 'localhost' else name}" for i, name in enumerate(listed)), done.stderr)
        self.assertIn("started 3 of 21 agents itself", done.stderr)
        self.assertIn("agent of host 'localhost': 0 hosts below it", done.stderr)

    def test_ranks_that_alternate(self):
        hosts = ",".join(f"{name}:2" for name in names(13))
        done = run(TUTTI, "run", "--hosts", hosts, "--remote-start", START, "--fan-out", "3", "--map-by", "node", "sh", "-c",
                   "echo $TUTTI_RANK $TUTTI_LOCAL_RANK $ON_HOST; exit $((TUTTI_RANK == 20 ? 4 : 0))")
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"{i} {i // 13} h{i % 13}" for i in range(26)), done.stderr)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"^tutti run: rank 20 \(h7, pid \d+\) exited with code 4\n")

    def test_much_output_from_everywhere(self):
        done = run(*words(21, "sh", "-c", "seq 20000", flags=["--tag-output"]))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for rank in range(21):
            mine = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] {i}" for i in range(1, 20001)])

    def test_signals_reach_all(self):
        program = 'trap "echo $TUTTI_RANK; exit 0" USR1; echo $$ $$ >> "$0"; while :; do sleep 0.05; done 2> /dev/null'
        job = Running(self, 21, program=program)
        job.launcher.send_signal(signal.SIGUSR1)
        out, err = job.launcher.communicate(timeout=60)
        self.assertEqual((job.launcher.returncode, err), (0, ""))
        self.assertEqual(sorted(map(int, out.split())), list(range(21)))

    def test_exit_code_of_a_rank_below(self):
        done = run(*words(21, "sh", "-c", "[ $TUTTI_RANK = 5 ] && exit 7; exec sleep 600", flags=["--grace", "0"]))
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"^tutti run: rank 5 \(h5, pid \d+\) exited with code 7\n")

    def test_they_meet(self):
        probe = os.path.join(sys.argv[2], "bootstrap_probe")
        done = run(*words(13, probe, fan_out=3))
        self.assertEqual((done.returncode, done.stdout.count("sum 91\n")), (0, 13), done.stderr)


class Deaths(unittest.TestCase):
    """Of 64 hosts: h16 to h31 are a branch, in which h17 starts h18 and h19."""

    def test_an_agent_inside(self):
        job = Running(self, 64, flags=["--grace", "0"])
        os.kill(job.agents["h17"], signal.SIGKILL)
        out, err = job.launcher.communicate(timeout=60)
        self.assertEqual((job.launcher.returncode, out), (125, ""), err)
        lines = err.splitlines()
        self.assertRegex(lines[0], r"^tutti run: rank 17 \(h17, pid \d+\) was lost with its host: 'env ON_HOST=h17' was killed by "
                                   r"signal 9; with it went the hosts that were started from there: h18, h19$")
        self.assertIn("tutti run: afterwards ranks 18, 19 were lost with their host: the way there led over host 'h17', which is lost", lines)
        self.assertEqual(len(lines), 3, err)  # the third tells of those that were ended
        job.assert_all_gone(self)

    def test_a_child_of_the_launcher(self):
        job = Running(self, 64, flags=["--grace", "0"])
        os.kill(job.agents["h16"], signal.SIGKILL)
        _, err = job.launcher.communicate(timeout=60)
        self.assertEqual(job.launcher.returncode, 125)
        below = ", ".join(f"h{i}" for i in range(17, 32))
        self.assertIn(f"was killed by signal 9; with it went the hosts that were started from there: {below}\n", err)
        job.assert_all_gone(self)

    def test_a_silent_agent_inside(self):
        job = Running(self, 21, flags=["--grace", "0", "--silence", "2"])
        inside = next(h for h, above in parents(21, 4).items() if above is not None)
        os.kill(job.agents[f"h{inside}"], signal.SIGSTOP)
        _, err = job.launcher.communicate(timeout=60)
        self.assertEqual(job.launcher.returncode, 125)
        self.assertRegex(err, rf"^tutti run: rank {inside} \(h{inside}, pid \d+\) was lost with its host: nothing was heard of it for 2 s")
        job.assert_all_gone(self)

    def test_others_go_on(self):
        program = 'echo $$ $$ >> "$0"; while [ ! -e "$0.go" ]; do sleep 0.05; done; echo $TUTTI_RANK'
        job = Running(self, 21, flags=["--keep-going"], program=program)
        first, count = branches(0, 21, 4)[1]
        os.kill(job.agents[f"h{first}"], signal.SIGKILL)
        self.assertRegex(job.launcher.stderr.readline(), rf"rank {first} \(h{first}, .*the others go on")
        with open(job.note + ".go", "w"):
            pass
        out, _ = job.launcher.communicate(timeout=60)
        self.assertEqual(job.launcher.returncode, 125)
        self.assertEqual(sorted(map(int, out.split())), [i for i in range(21) if not first <= i < first + count])

    def test_the_launcher(self):
        job = Running(self, 64)
        job.launcher.kill()
        job.launcher.wait(60)
        job.assert_all_gone(self)

    def test_a_rank(self):
        job = Running(self, 64, flags=["--grace", "0"])
        os.kill(job.pids()[-1], signal.SIGKILL)
        job.launcher.communicate(timeout=60)
        self.assertEqual(job.launcher.returncode, 128 + signal.SIGKILL)
        job.assert_all_gone(self)


class Starts(unittest.TestCase):
    def test_slow_ones_are_not_silent(self):
        # Three after one another: those who are there are heard of meanwhile, and each has a deadline of its own.
        start = script(self, 'sleep 2; export ON_HOST=$1; shift; exec "$@"')
        done = run(*words(64, "sh", "-c", "echo $ON_HOST", start=start, flags=["--silence", "1.5", "--connect-timeout", "20"]))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.split()), sorted(names(64)))

    def test_ends_while_hosts_start(self):
        # 4 are there and 16 of 64 are being started when the end comes, in three ways.
        for ends, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 128 + 15), ("an agent's", 125)):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            note = os.path.join(folder.name, "pids")

            def pids():
                if not os.path.exists(note):
                    return {}
                with open(note) as file:
                    return {host: int(pid) for host, pid in (line.split() for line in file.read().split("\n")[:-1])}
            start = script(self, f'echo $1 $$ >> {note}; case $1 in h0|h16|h32|h48) ;; *) sleep 600 ;; esac; shift; exec "$@"')
            launcher = subprocess.Popen(words(64, "true", start=start), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=clean_environment())
            self.addCleanup(launcher.stderr.close)
            self.assertTrue(wait_until(lambda: len(pids()) == 4 + 4 * 4), pids())
            if ends == "an agent's":
                os.kill(pids()["h16"], signal.SIGKILL)
            else:
                launcher.send_signal(ends)
            _, err = launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, code, err)
            if ends == "an agent's":
                self.assertRegex(err, r"^tutti run: no rank can be started on host 'h16': '.* h16' was killed by signal 9\n$")
            everything = pids().values()
            self.assertTrue(wait_until(lambda: not any(map(alive, everything))), pids())

    def test_one_that_takes_too_long(self):
        start = script(self, '[ $1 = h18 ] && exec sleep 600; export ON_HOST=$1; shift; exec "$@"')
        done = run(*words(64, "true", start=start, flags=["--connect-timeout", "5", "--silence", "30"]))
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, r"^tutti run: no rank can be started on host 'h18': '.* h18' has started no agent in 5 s; "
                                      r"check the host's name, or give it longer \(--connect-timeout\) \(it is started from host 'h17', which has to be able to; --fan-out 64 has all started from here\)\n$")

    def test_a_host_that_does_not_exist(self):
        start = script(self, '[ $1 = h20 ] && { echo "no route to $1" >&2; exit 255; }; export ON_HOST=$1; shift; exec "$@"')
        done = run(*words(21, "true", start=start))
        self.assertEqual(done.returncode, 125)
        self.assertIn("host 'h20'", done.stderr)
        self.assertIn("exited with code 255 (no route to h20)", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_no_program_on_one_of_them(self):
        start = script(self, '[ $1 = h20 ] && export PATH=/nowhere; exec /usr/bin/env ON_HOST=$1 "$2" "$3"')
        done = run(*words(21, "sh", "-c", "true", start=start))
        self.assertEqual((done.returncode, done.stderr), (127, "tutti run: host 'h20': cannot run 'sh': no such program in that folder or on its PATH\n"))

    def test_a_false_one_below(self):
        # Its starter finds out, and it is named. 2: the greeting; then a goodbye before the end.
        version = run(TUTTI, "--version").stdout.split()[1]
        start = script(self, f'[ $1 = h20 ] && {{ printf "\\2tutti agent {version}\\n\\014\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0"; exec sleep 30; }}; '
                             'export ON_HOST=$1; shift; exec "$@"')
        done = run(*words(21, "true", start=start))
        self.assertEqual((done.returncode, done.stderr),
                         (125, "tutti run: host 'h20': its agent is not to be believed: it leaves before the job has ended\n"))


class Growth(unittest.TestCase):
    """Counts for the launcher and for agents, with 16 to 256 hosts."""

    SAID = re.compile(r"(?:started (\d+) of (\d+) agents itself|agent of host '(\w+)': (\d+) hosts below it); "
                      r"(\d+) wakes, (\d+) reads of channels, (\d+) in vain")

    def counts(self, hosts, fan_out, *program):
        """Of the launcher, and of each agent: (wakes, reads, reads in vain)."""
        done = run(*words(hosts, *(program or ["true"]), fan_out=fan_out), env=clean_environment(TUTTI_LOG="debug"))
        self.assertEqual(done.returncode, 0, done.stderr)
        launcher, agents = None, {}
        for own, _, host, _, *numbers in self.SAID.findall(done.stderr):
            numbers = tuple(map(int, numbers))
            if host:
                agents[host] = numbers
            else:
                self.assertLessEqual(int(own), fan_out)
                launcher = numbers
        self.assertEqual(len(agents), hosts)
        return launcher, agents

    def test_reads(self):
        for hosts in (16, 64, 256):
            launcher, agents = self.counts(hosts, 8)
            for who, (wakes, reads, in_vain) in (("launcher", launcher), *agents.items()):
                self.assertEqual(in_vain, 0, who)
            # The launcher hears from each host that its rank has started, written nothing and ended, in six frames, which may come alone.
            self.assertLessEqual(launcher[1], 8 * hosts + 40)
            self.assertLessEqual(launcher[0], 8 * hosts + 80)

    def test_a_leaf_does_the_same_in_every_job(self):
        for hosts in (16, 256):
            _, agents = self.counts(hosts, 8)
            starters = {f"h{above}" for above in parents(hosts, 8).values() if above is not None}
            for host, (_, reads, _) in agents.items():
                if host not in starters:
                    self.assertLessEqual(reads, 12, host)

    def test_descriptors_and_children(self):
        seen = {}
        for hosts, fan_out in ((8, 8), (64, 8), (256, 8), (64, 64)):
            job = Running(self, hosts, fan_out)
            for who, pid in (("launcher", job.launcher.pid), ("agent", job.agents["h0"])):
                seen[hosts, fan_out, who] = len(os.listdir(f"/proc/{pid}/fd"))
            with open(f"/proc/{job.launcher.pid}/task/{job.launcher.pid}/children") as file:
                self.assertEqual(len(file.read().split()), min(hosts, fan_out) + 1)  # and the guard
            job.launcher.terminate()
            job.launcher.communicate(timeout=60)
            job.assert_all_gone(self)
        self.assertEqual(seen[8, 8, "launcher"], seen[64, 8, "launcher"])
        self.assertEqual(seen[8, 8, "launcher"], seen[256, 8, "launcher"])
        self.assertEqual(seen[64, 64, "launcher"] - seen[8, 8, "launcher"], 2 * 56)
        self.assertLessEqual(seen[256, 8, "agent"], seen[64, 8, "agent"] + 2 * 8)
        self.assertEqual(seen[8, 8, "agent"], seen[64, 64, "agent"])

    def test_few_descriptors_are_made_more(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
        done = run(*words(64, "sh", "-c", "echo $(ulimit -Sn)", fan_out=64), preexec_fn=few)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # A rank has a connection to every other, and gets no more than it had where that is enough.
        self.assertEqual(set(done.stdout.split()), {str(3 * 64 + 512)})

    def test_too_few_descriptors_are_told_before_anything_starts(self):
        def too_few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        for flags, needed in (["-np", "128"], 408), (["--hosts", ",".join(names(40)), "--remote-start", "env"], 128):
            done = run(TUTTI, "run", *flags, "false", preexec_fn=too_few)
            self.assertEqual((done.returncode, done.stderr), (126, f"tutti run: this process may have 64 files open, and needs {needed}: "
                                                                   f"raise the limit (ulimit -Hn {needed}) where the job is started\n"))

    def test_too_few_descriptors_of_an_agent(self):
        start = script(self, 'shift; ulimit -n 60; exec "$@"')
        done = run(TUTTI, "run", "--hosts", "h0:20", "--remote-start", start, "true")
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertIn("this process may have 60 files open, and needs 64: raise the limit (ulimit -Hn 64)", done.stderr)


class AThousand(unittest.TestCase):
    def test_output_and_exit(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whoever ends late counts, too
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words(1000, "sh", "-c", "echo $ON_HOST; [ $TUTTI_RANK != 999 ] || exit 3", fan_out=32), capture_output=True,
                              text=True, timeout=240, env=clean_environment())
        while True:
            try:
                os.wait()
            except ChildProcessError:
                break
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(sorted(done.stdout.split()), sorted(names(1000)))
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"^tutti run: rank 999 \(h999, pid \d+\) exited with code 3\n$")
        print(f"1000 agents by 32: {after.ru_utime - before.ru_utime:.1f} s of CPU, and {after.ru_stime - before.ru_stime:.1f} s in the kernel")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
