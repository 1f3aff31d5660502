"""Four hosts with two ranks each: every collective by every algorithm, over IPv4, over IPv6, past a network that leads nowhere;
started by `tutti run --hosts`, and by Open MPI's mpirun. The hosts are network namespaces; see tests/support/hosts_lab.py."""

import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from hosts_lab import Lab, Refused
from processes import PROBE, TESTS, TUTTI, alive, clean_environment, wait_until

COLLECTIVES = os.path.join(TESTS, "collectives_probe")
START = ["--remote-start", "ip netns exec {host}"]
HOSTS, SLOTS = 4, 2


class Case(unittest.TestCase):
    def enter(self, **options):
        lab = Lab(HOSTS, **options)
        try:
            lab.__enter__()
        except Refused as why:
            self.skipTest(str(why))
        self.addCleanup(lab.__exit__)
        return lab

    def launch(self, lab, *words, flags=(), timeout=200):
        """`tutti run` on the first host, with ranks on all."""
        return lab.run(0, TUTTI, "run", "--hosts", lab.list(SLOTS), *START, *flags, *words, env=clean_environment(), timeout=timeout)

    def assert_played(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"played \d+ calls by \d+ algorithms on {HOSTS * SLOTS} ranks of {HOSTS} hosts\n")

    def assert_routes(self, done):
        """Shared memory within a host, tcp between hosts."""
        routes = dict(re.findall(r"rank (\d+): (.*)\n", done.stdout))
        self.assertEqual(len(routes), HOSTS * SLOTS, done.stdout)
        for rank, line in routes.items():
            for peer, route in enumerate(line.split(", ")):
                if peer == int(rank):
                    self.assertEqual(route, "self")
                elif peer // SLOTS == int(rank) // SLOTS:
                    self.assertRegex(route, "^shm")
                else:
                    self.assertRegex(route, "^tcp")


class EveryCollective(Case):
    def test_ipv4_only(self):
        done = self.launch(self.enter(families=(4,)), COLLECTIVES, "--routes")
        self.assert_played(done)
        self.assert_routes(done)

    def test_ipv6_only(self):
        done = self.launch(self.enter(families=(6,)), COLLECTIVES, "--routes")
        self.assert_played(done)
        self.assert_routes(done)

    def test_a_network_that_leads_nowhere(self):
        done = self.launch(self.enter(dead_end=True), COLLECTIVES, "--routes")
        self.assert_played(done)
        self.assert_routes(done)

    def test_ranks_that_alternate_between_hosts(self):
        self.assert_played(self.launch(self.enter(), COLLECTIVES, flags=["--map-by", "node"]))

    def test_tcp_within_hosts_too(self):
        self.assert_played(self.launch(self.enter(), COLLECTIVES, flags=["--transport", "tcp"]))

    def test_open_mpi(self):
        if shutil.which("mpirun.openmpi") is None:
            self.skipTest("Open MPI is not installed")
        lab = self.enter()
        with tempfile.TemporaryDirectory() as folder:
            env = clean_environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=folder,
                                    TUTTI_STORE=f"tcp://{lab.address(0)}:20088", TUTTI_SECRET="5" * 64)
            words = ["mpirun.openmpi", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", lab.mpi_agent(folder), "--mca", "oob_tcp_if_include", "common0",
                     "--hostfile", lab.mpi_hosts(folder, SLOTS), "--map-by", "slot", "--bind-to", "none", "-x", "TUTTI_STORE", "-x", "TUTTI_SECRET",
                     COLLECTIVES, "--routes"]
            done = subprocess.run(lab.named_words(0, *words), capture_output=True, text=True, env=env, timeout=100)
        self.assert_played(done)
        self.assert_routes(done)


class BytesBetweenHosts(Case):
    """Of every algorithm that says how many there are, as the hosts' interfaces count them, so that headers and
    acknowledgements come on top."""

    def compare(self, *flags):
        done = self.launch(self.enter(), COLLECTIVES, "--crossing", flags=flags)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = re.findall(r"^(\w+) (\w+) (\d+) (\d+)$", done.stdout, re.M)
        for kind in ("allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "alltoall"):
            self.assertIn((kind, "hierarchical"), [(of, by) for of, by, _, _ in found])
        for kind, algorithm, sent, formula in found:
            headers = int(sent) - int(formula)
            self.assertTrue(0 <= headers <= 0.1 * int(formula) + 100000, (kind, algorithm, sent, formula))

    def test_host_by_host(self):
        self.compare()

    def test_alternating(self):
        self.compare("--map-by", "node")


class Connections(Case):
    def most(self, lab, **variables):
        """The most connections of any two ranks of one host, and of two hosts."""
        words = [TUTTI, "bench", "allreduce", "--algorithm", "ring", "-b", "16M", "-e", "16M", "-n", "3"]
        done = lab.run(0, TUTTI, "run", "--hosts", lab.list(SLOTS), *START, "--transport", "tcp", *words,
                       env=clean_environment(TUTTI_LOG="info", **variables))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        pairs = collections.Counter(re.findall(r"rank (\d+) reaches rank (\d+) at", done.stderr))
        near = [count for (one, other), count in pairs.items() if int(one) // SLOTS == int(other) // SLOTS]
        far = [count for (one, other), count in pairs.items() if int(one) // SLOTS != int(other) // SLOTS]
        return max(near), max(far)

    def test_several_between_hosts(self):
        lab = self.enter(families=(4,))
        self.assertEqual(self.most(lab), (1, 4))
        self.assertEqual(self.most(lab, TUTTI_TCP_CONNECTIONS="1"), (1, 1))
        self.assertEqual(self.most(lab, TUTTI_TCP_CONNECTIONS="2"), (2, 2))


class Launcher(Case):
    def test_ranks_are_where_they_say(self):
        lab = self.enter()
        done = self.launch(lab, "sh", "-c", "echo $TUTTI_RANK $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE $(ip netns identify)")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"{r} {r % SLOTS} {SLOTS} {lab.name(r // SLOTS)}" for r in range(HOSTS * SLOTS)], done.stderr)

    def test_unknown_host(self):
        lab = self.enter()
        done = lab.run(0, TUTTI, "run", "--hosts", f"{lab.name(1)},nowhere", *START, "true", env=clean_environment())
        self.assertEqual((done.returncode, done.stderr.count("\n")), (125, 1), done.stderr)
        self.assertIn("'nowhere'", done.stderr)
        self.assertIn("check the host's name", done.stderr)

    def test_launcher_that_nobody_reaches(self):
        lab = self.enter(families=(4,), dead_end=True)
        flags = ["--address", "192.168.88.1", "--connect-timeout", "2"]
        done = self.launch(lab, "true", flags=flags)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (125, 1), done.stderr)
        self.assertIn("tcp://192.168.88.1:", done.stderr)
        self.assertIn("--address", done.stderr)
        self.assert_met(self.launch(lab, PROBE, flags=["--address", lab.address(0), "--connect-timeout", "20"]))

    def assert_met(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("sum 36\n"), HOSTS * SLOTS)

    def test_a_host_that_fails_takes_all_along(self):
        lab = self.enter()
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "pids")
            launcher = subprocess.Popen(
                lab.words(0, TUTTI, "run", "--hosts", lab.list(SLOTS), *START, "--grace", "0", "sh", "-c", "echo $$ >> $0; exec sleep 600", note),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=clean_environment())
            self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
            self.addCleanup(launcher.stderr.close)

            def pids():
                try:
                    with open(note) as file:
                        return [int(line) for line in file.read().split("\n")[:-1]]
                except FileNotFoundError:
                    return []
            self.assertTrue(wait_until(lambda: len(pids()) == HOSTS * SLOTS))
            there = [pid for pid in pids() if self.namespace(pid) == lab.name(2)]
            self.assertEqual(len(there), SLOTS)
            os.kill(there[0], signal.SIGKILL)
            _, err = launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, 128 + signal.SIGKILL)
            self.assertRegex(err, rf"^tutti run: rank [45] \({lab.name(2)}, pid {there[0]}\) was killed by signal 9")
            self.assertEqual([pid for pid in pids() if alive(pid)], [])

    @staticmethod
    def namespace(pid):
        return subprocess.run(["ip", "netns", "identify", str(pid)], capture_output=True, text=True).stdout.strip()


class Tree(Case):
    """32 hosts of which each starts 3 others at most, in its own namespace."""

    HOSTS, SLOTS = 32, 2

    def setUp(self):
        self.lab = Lab(self.HOSTS, families=(4,))
        try:
            self.lab.__enter__()
        except Refused as why:
            self.skipTest(str(why))
        self.addCleanup(self.lab.__exit__)
        self.words = self.lab.words(0, TUTTI, "run", "--hosts", self.lab.list(self.SLOTS), *START, "--fan-out", "3")

    def test_ranks_meet_where_they_say(self):
        script = f"echo $TUTTI_RANK $(ip netns identify) $({PROBE} | grep -o 'sum .*')"
        done = subprocess.run([*self.words, "sh", "-c", script], capture_output=True, text=True, env=clean_environment(), timeout=200)
        ranks = self.HOSTS * self.SLOTS
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())),
                         (0, sorted(f"{r} {self.lab.name(r // self.SLOTS)} sum {ranks * (ranks + 1) // 2}" for r in range(ranks))), done.stderr)

    def test_a_host_inside_dies(self):
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "pids")
            launcher = subprocess.Popen([*self.words, "--grace", "0", "sh", "-c", "echo $$ $PPID >> $0; exec sleep 600", note],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=clean_environment())
            self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
            self.addCleanup(launcher.stderr.close)

            def pairs():
                try:
                    with open(note) as file:
                        return [tuple(map(int, line.split())) for line in file.read().split("\n")[:-1]]
                except FileNotFoundError:
                    return []
            self.assertTrue(wait_until(lambda: len(pairs()) == self.HOSTS * self.SLOTS))
            # The launcher starts hosts 0, 10 and 21; host 10 starts 11, 14 and 17, each with two or three others below it.
            agent = next(parent for pid, parent in pairs() if Launcher.namespace(pid) == self.lab.name(14))
            os.kill(agent, signal.SIGKILL)
            _, err = launcher.communicate(timeout=60)
            self.assertEqual(launcher.returncode, 125, err)
            below = ", ".join(self.lab.name(i) for i in (15, 16))
            self.assertRegex(err, rf"^tutti run: rank 2[89] \({self.lab.name(14)}, pid \d+\) was lost with its host: .* was killed by signal 9; "
                                  rf"with it went the hosts that were started from there: {below}\n")
            self.assertTrue(wait_until(lambda: not any(alive(pid) for pair in pairs() for pid in pair)))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
