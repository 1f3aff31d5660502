"""`tutti doctor` sees the ranks of all hosts of a job: it asks the launcher, which asks the agents. The hosts are network namespaces; see
tests/support/hosts_lab.py. Programs of hang_probe make one mistake each, and hosts are stopped, killed and cut off from one another."""

import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import unittest

from hosts_lab import Lab, Refused, ip
from processes import TESTS, TUTTI, alive, clean_environment, run, wait_until

PROBE = os.path.join(TESTS, "hang_probe")
START = ["--remote-start", "ip netns exec {host}"]
PATIENCE = 0.5  # seconds after which a call counts as stuck


class Job:
    """A job on the hosts of a lab, started on the first of them and ended with the test."""

    def __init__(self, case, hosts, scenario, slots=2, flags=()):
        self.case = case
        self.lab = Lab(hosts, families=(4,))
        try:
            self.lab.__enter__()
        except Refused as why:
            case.skipTest(str(why))
        case.addCleanup(self.lab.__exit__)
        self.launcher = subprocess.Popen(
            self.lab.words(0, TUTTI, "run", "--hosts", self.lab.list(slots), *START, "--keep-going", "--silence", "120", *flags, PROBE, scenario),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
        case.addCleanup(self.end)
        self.ranks = hosts * slots
        self.last = {}

    def end(self):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGCONT)
        self.launcher.send_signal(signal.SIGTERM)
        try:
            self.launcher.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            self.launcher.wait()

    def pids(self, host=None, word=""):
        """The processes of a host with `word` in their command line."""
        found = []
        for name in [self.lab.name(host)] if host is not None else self.lab.names():
            for pid in ip("netns", "pids", name, check=False).stdout.split():
                try:
                    with open(f"/proc/{pid}/cmdline") as file:
                        if word in file.read().replace("\0", " "):
                            found.append(int(pid))
                except (FileNotFoundError, ProcessLookupError):
                    pass
        return found

    def agent(self, host):
        return self.pids(host, "tutti agent")[0]

    def ask(self, *flags):
        return self.lab.run(0, TUTTI, "doctor", self.launcher.pid, "--patience", PATIENCE, *flags, env=clean_environment())

    def look(self):
        done = self.ask("--json")
        found = json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else []
        self.last = found[0] if found else {}
        return self.last

    def wait_for(self, finding):
        """Looks until the finding is of this kind; returns it."""
        wait_until(lambda: self.look().get("finding") == finding, seconds=30)
        self.case.assertEqual(self.last.get("finding"), finding, self.last.get("text"))
        return self.last

    def expect(self, finding, culprits, *words):
        found = self.wait_for(finding)
        self.case.assertEqual(found["culprits"], culprits, found["text"])
        for word in words:
            self.case.assertIn(word, found["text"])
        return found

    def goes_on(self):
        """Waits until rank 0 has made calls, and made more."""
        def number():
            ranks = {rank["rank"]: rank for rank in self.look().get("ranks", [])}
            return max((call["number"] for call in ranks.get(0, {}).get("calls", [])), default=0) if len(ranks) == self.ranks else 0
        self.case.assertTrue(wait_until(lambda: number() > 3))
        before = number()
        self.case.assertTrue(wait_until(lambda: number() > before))

    def cut(self, a, b):
        """What one of the two hosts sends to the other goes to a machine that does not exist."""
        for here, there in ((a, b), (b, a)):
            ip("-n", self.lab.name(here), "neigh", "replace", self.lab.address(there), "lladdr", "02:00:00:00:00:99", "dev", "common0", "nud", "permanent")


class RanksElsewhere(unittest.TestCase):
    def test_rank_that_never_enters_a_call(self):
        job = Job(self, 2, "computes")
        found = job.expect("late", [2], "Rank 2 has not entered call 4 of world", "ranks 0, 1, 3 have waited for it", f"on {job.lab.name(1)} computes",
                           "compute_for_long", "its last call was call 3 of world")
        self.assertEqual([(h["host"], h["ranks"], h["answers"]) for h in found["hosts"]],
                         [(job.lab.name(0), [0, 1], True), (job.lab.name(1), [2, 3], True)])
        self.assertEqual([(r["rank"], r["host"], r["life"]) for r in found["ranks"]], [(r, job.lab.name(r // 2), "lives") for r in range(4)])
        self.assertEqual(job.ask().returncode, 1)

    def test_stopped_rank(self):
        job = Job(self, 2, "stopped")
        job.expect("stopped", [2], "Rank 2 is stopped", f"on {job.lab.name(1)}", "SIGCONT", "ranks 0, 1, 3 have waited for it")

    def test_host_that_is_started_by_another_host(self):
        job = Job(self, 3, "late_last", slots=1, flags=["--fan-out", "2"])
        job.expect("late", [2], "Rank 2 has not entered call 4 of world", f"on {job.lab.name(2)}", "compute_for_long")

    def test_many_doctors_at_once_do_not_disturb(self):
        job = Job(self, 3, "slow")
        job.goes_on()
        words = [job.lab.words(0, TUTTI, "doctor", job.launcher.pid, "--json") for _ in range(6)]
        doctors = [subprocess.Popen(w, stdout=subprocess.PIPE, text=True, env=clean_environment()) for w in words]
        for doctor in doctors:
            out = doctor.communicate(timeout=60)[0]
            self.assertEqual(len(json.loads(out)[0]["ranks"]), 6)
        job.goes_on()
        self.assertIsNone(job.launcher.poll())
        self.assertEqual(len(job.pids(word="hang_probe slow")), 6 + 2)  # and the launcher with its guard

    def test_timelines_are_by_one_clock(self):
        job = Job(self, 2, "slow")
        job.goes_on()
        trace = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"trace-{os.getpid()}.json")
        self.addCleanup(lambda: os.path.exists(trace) and os.unlink(trace))
        self.assertEqual(job.ask("--perfetto", trace).returncode, 0)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
        calls = {}
        for event in events:
            if event["ph"] == "X" and '"state": "done"' in json.dumps(event):
                calls.setdefault(event["args"]["call"], []).append(event)
        whole = [of_call for of_call in calls.values() if len(of_call) == 4]
        self.assertGreater(len(whole), 10)


class HostsThatDoNotAnswer(unittest.TestCase):
    def test_agent_that_is_stopped(self):
        job = Job(self, 2, "computes")
        job.wait_for("late")
        os.kill(job.agent(1), signal.SIGSTOP)
        job.expect("silent", [2, 3], f"Ranks 2, 3 on {job.lab.name(1)} cannot be asked: their host does not answer",
                   "In call 4 of world", "ranks 0, 1 have waited", "Look whether that host runs")
        os.kill(job.agent(1), signal.SIGCONT)
        job.wait_for("late")

    def test_host_that_is_frozen(self):
        job = Job(self, 3, "slow", slots=1)
        job.goes_on()
        for pid in job.pids(2):
            os.kill(pid, signal.SIGSTOP)
        job.cut(2, 0)
        job.cut(2, 1)
        found = job.wait_for("silent")
        self.assertEqual(found["culprits"], [2])
        self.assertIn(f"Rank 2 on {job.lab.name(2)} cannot be asked: its host does not answer", found["text"])
        self.assertEqual([h["answers"] for h in found["hosts"]], [True, True, False])

    def test_agent_that_is_killed(self):
        job = Job(self, 2, "computes")
        job.wait_for("late")
        os.kill(job.agent(1), signal.SIGKILL)
        found = job.wait_for("silent")
        self.assertIn(f"on {job.lab.name(1)} cannot be asked: the launcher has lost their host", found["text"])
        self.assertTrue(set(found["culprits"]) <= {2, 3})

    def test_hosts_between_which_no_data_pass(self):
        job = Job(self, 3, "slow", slots=1)
        job.goes_on()
        job.cut(1, 2)
        found = job.wait_for("no_progress")
        self.assertIn(f"no data pass between rank 1 on {job.lab.name(1)} and rank 2 on {job.lab.name(2)}", found["text"])
        self.assertEqual([h["answers"] for h in found["hosts"]], [True] * 3)


class OneMachine(unittest.TestCase):
    """Two hosts that are this machine by names that it does not know."""

    def launch(self, scenario, *flags, **options):
        words = [TUTTI, "run", "--hosts", "a:2,b:2", "--remote-start", "env ON_HOST={host}", *flags, PROBE, scenario]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                env=clean_environment(), **options)

    def test_hosts_are_as_the_launcher_names_them(self):
        launcher = self.launch("computes")
        self.addCleanup(launcher.communicate)
        self.addCleanup(launcher.terminate)
        last = {}

        def look():
            done = run(TUTTI, "doctor", launcher.pid, "--json", "--patience", PATIENCE)
            last.update(json.loads(done.stdout)[0] if done.stdout else {})
            return last.get("finding") == "late"
        self.assertTrue(wait_until(look), last)
        self.assertEqual(last["culprits"], [2])
        self.assertIn(" on b computes at ", last["text"])
        self.assertEqual([(h["host"], h["ranks"], h["answers"]) for h in last["hosts"]], [("a", [0, 1], True), ("b", [2, 3], True)])
        for host in last["hosts"]:  # the clocks are one
            self.assertLessEqual(abs(host["clock_ahead_ns"]), 2 * host["clock_error_ns"])

    def test_last_words_of_a_rank_elsewhere(self):
        err = self.launch("dies").communicate(timeout=60)[1]
        self.assertRegex(err, r"tutti run: rank 2 \(b, pid \d+\) was killed by signal 9 \(SIGKILL\)\n"
                              r"tutti run: the records say of rank 2: it ended outside of a call; its last call was call 3 of world \(allreduce")
        self.assertEqual(err.count("the records say"), 1)


class LastWords(unittest.TestCase):
    """What the launcher adds to its own lines, from the records."""

    def test_rank_that_dies(self):
        err = run(TUTTI, "run", "-np", "4", PROBE, "dies").stderr
        self.assertRegex(err, r"tutti run: rank 2 \(pid \d+\) was killed by signal 9 \(SIGKILL\)\n"
                              r"tutti run: the records say of rank 2: it ended outside of a call; its last call was call 3 of world \(allreduce")
        self.assertEqual(err.count("tutti run: the records say"), 1)

    def test_time_limit(self):
        err = run(TUTTI, "run", "-np", "4", "--time-limit", "3", PROBE, "sleeps").stderr
        self.assertRegex(err, r"tutti run: the time limit of 3 s has passed; ending all 4 ranks\n"
                              r"tutti run: the records say: Rank 2 has not entered call 4 of world \(allreduce")

    def test_nothing_is_said_where_nothing_is_recorded(self):
        self.assertNotIn("the records say", run(TUTTI, "run", "-np", "2", "sh", "-c", "kill -9 $$").stderr)
        self.assertNotIn("the records say", run(TUTTI, "run", "-np", "4", "--recorder", "off", PROBE, "dies").stderr)


class Launchers(unittest.TestCase):
    def test_launcher_that_is_stopped(self):
        job = Job(self, 2, "computes")
        job.wait_for("late")
        os.kill(job.launcher.pid, signal.SIGSTOP)
        done = job.ask()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertIn(f"the launcher, process {job.launcher.pid}, does not answer", done.stderr)
        os.kill(job.launcher.pid, signal.SIGCONT)
        job.wait_for("late")

    def test_socket_is_not_a_file_and_takes_anything(self):
        job = Job(self, 2, "computes")
        job.wait_for("late")
        self.assertEqual(glob.glob(f"/tmp/*launcher-{job.launcher.pid}*"), [])
        program = ("import socket, sys\n"
                   "for text in (b'x' * 100, b'\\xff' * 4096, bytes([17]) + bytes(16), bytes([20]) + bytes(16)):\n"
                   "  s = socket.socket(socket.AF_UNIX); s.connect('\\0tutti-launcher-' + sys.argv[1]); s.sendall(text); s.close()\n")
        done = job.lab.run(0, "python3", "-c", program, job.launcher.pid)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        job.wait_for("late")
        self.assertTrue(alive(job.launcher.pid))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
