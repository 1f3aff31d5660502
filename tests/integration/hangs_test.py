"""`tutti doctor` names the culprit of staged hangs: each scenario of hang_probe is one mistake of a program."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from processes import TESTS, TUTTI, clean_environment, run, wait_until

PROBE = os.path.join(TESTS, "hang_probe")
PATIENCE = 0.5  # seconds after which a call counts as stuck


class Job:
    """A job that hangs, ended with the test."""

    def __init__(self, case, *words, flags=(), **environment):
        env = clean_environment(**environment)
        self.process = subprocess.Popen([TUTTI, "run", "-np", "4", "--keep-going", *flags, *words], env=env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        case.addCleanup(self.end)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def ask(self, *flags):
        return run(TUTTI, "doctor", self.process.pid, "--patience", PATIENCE, *flags)

    def findings(self):
        done = self.ask("--json")
        return json.loads(done.stdout) if done.returncode in (0, 1) else []

    def finding(self, wanted, culprits=None):
        """The finding, as soon as it is of the wanted kind and names these culprits, or the last one of 30 s."""
        last = {}

        def found():
            all_found = self.findings()
            if all_found:
                last.clear()
                last.update(all_found[0])
            return last.get("finding") == wanted and culprits in (None, last["culprits"])

        wait_until(found, seconds=30)
        return last


class Hangs(unittest.TestCase):
    def expect(self, scenario, finding, culprits, *words, flags=(), **environment):
        job = Job(self, PROBE, scenario, flags=flags, **environment)
        found = job.finding(finding)
        self.assertEqual((found.get("finding"), found.get("culprits")), (finding, culprits), found.get("text"))
        for word in words:
            self.assertIn(word, found["text"])
        return job

    def test_computes(self):
        job = self.expect("computes", "late", [2], "Rank 2 has not entered call 4 of world (allreduce(sum, f32, count 1000)",
                          "ranks 0, 1, 3 have waited for it", "its last call was call 3 of world", "compute_for_long")
        done = job.ask()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"^4 ranks of hang_probe, job [0-9a-f]+:\nRank 2 has not entered call 4")

    def test_sleeps(self):
        self.expect("sleeps", "late", [2], "sleep_for_long")

    def test_blocked_in_a_system_call_of_its_own(self):
        self.expect("reads", "late", [2], "read", "a pipe", "read_from_nobody")

    def test_stopped(self):
        self.expect("stopped", "stopped", [2], "Rank 2 is stopped", "SIGCONT", "call 4 of world")

    def test_dead(self):
        self.expect("dies", "lost", [2], "Rank 2 is gone", "call 3 of world")

    def test_dead_over_tcp(self):
        self.expect("dies", "lost", [2], "Rank 2 is gone", TUTTI_TRANSPORT="tcp")

    def test_forgotten_call_over_tcp(self):
        self.expect("forgets", "late", [2], "Rank 2 has not entered call 4 of world", TUTTI_TRANSPORT="tcp")

    def test_other_order(self):
        self.expect("other_order", "mismatch", [1], "in another order", "rank 1 made barrier", "broadcast(root 0")

    def test_other_count(self):
        self.expect("other_count", "mismatch", [3], "rank 3 made allreduce(sum, f32, count 500)", "count 1000")

    def test_other_count_that_nobody_checks(self):
        self.expect("other_count", "mismatch", [3], "count 500", TUTTI_VERIFY="off", TUTTI_TRANSPORT="tcp")

    def test_deadlock_of_two_communicators(self):
        self.expect("two_communicators", "deadlock", [0, 1], "call 1 of first", "call 1 of second", "one order")

    def test_receive_without_a_send(self):
        self.expect("receive_without_send", "unmatched", [0], "a receive from rank 0 with tag 7", "has not made the send")

    def test_send_with_another_tag(self):
        self.expect("other_tag", "unmatched", [0], "with tag 7", "with tag 8", "the tags differ")

    def test_send_without_a_receive(self):
        self.expect("send_without_receive", "unmatched", [3], "a send to rank 3 with tag 5", "compute_for_long")

    def test_two_that_receive_first(self):
        self.expect("both_receive_first", "deadlock", [0, 1], "Let one of them send before it receives")

    def test_member_that_does_not_make_the_group(self):
        self.expect("group_of_one_less", "late", [2], "sleep_for_long")

    def test_rank_behind_one_that_waits_in_another_communicator(self):
        self.expect("another_communicator", "late", [1], "compute_for_long")

    def test_rank_that_never_starts(self):
        program = 'if [ "$TUTTI_RANK" = 3 ]; then exec sleep 1000; fi; exec "$0" computes'
        job = Job(self, "sh", "-c", program, PROBE)
        found = job.finding("connecting")
        self.assertEqual((found.get("finding"), found.get("culprits")), ("connecting", [3]), found.get("text"))

    def test_store_that_is_gone(self):
        env = clean_environment(TUTTI_RANK="1", TUTTI_SIZE="2", TUTTI_STORE="tcp://127.0.0.1:9", TUTTI_SECRET="x", TUTTI_JOB="lonely")
        rank = subprocess.Popen([PROBE, "computes"], env=env, stderr=subprocess.DEVNULL)
        self.addCleanup(rank.wait)
        self.addCleanup(rank.kill)
        last = {}

        def found():
            done = run(TUTTI, "doctor", rank.pid, "--json")
            last.update(json.loads(done.stdout)[0] if done.stdout else {})
            return last.get("finding") == "connecting"

        self.assertTrue(wait_until(found), last)
        self.assertEqual(last["culprits"], [0])
        self.assertIn("looks for the store", last["text"])

    def test_all_ranks_hang_outside_of_calls(self):
        job = self.expect("all_elsewhere", "outside", [], "The ranks are in no call that tutti knows of.", "was call 3 of world",
                          "Each of ranks 0-3 waits in read of a pipe, called from", "read_from_nobody")
        self.assertEqual(job.ask().returncode, 0)

    def test_store_that_stops_while_ranks_connect(self):
        # The ranks meet in the launcher, which is stopped before the last one comes.
        with tempfile.TemporaryDirectory() as folder:
            program = f'if [ "$TUTTI_RANK" = 3 ]; then until [ -e {folder}/go ]; do sleep 0.05; done; fi; exec "$0" computes'
            job = Job(self, "sh", "-c", program, PROBE)
            self.assertEqual(job.finding("connecting").get("culprits"), [3])
            launcher = job.process.pid
            os.kill(launcher, signal.SIGSTOP)
            self.addCleanup(os.kill, launcher, signal.SIGCONT)
            open(f"{folder}/go", "w").close()
            last = job.finding("connecting", culprits=[])
            self.assertEqual((last.get("finding"), last.get("culprits")), ("connecting", []), last)
            self.assertIn("are not connected yet: rank 0 waits at tcp:", last["text"])
            self.assertIn(f"Process {launcher} of the job, its launcher or an agent, is stopped by a signal", last["text"])

    def test_slow_rank(self):
        self.expect("slow", "slow", [1], "Rank 1 comes last to")


class Errors(unittest.TestCase):
    def lines(self, scenario, **environment):
        """What the ranks write of their errors."""
        env = clean_environment(TUTTI_TIMEOUT="1", **environment)
        done = run(TUTTI, "run", "-np", "4", "--keep-going", "--time-limit", "3", PROBE, scenario, env=env)
        return [line for line in done.stderr.splitlines() if line.startswith("rank ")]

    def test_deadline(self):
        told = [line for line in self.lines("sleeps") if "The records say: Rank 2 has not entered call 4 of world" in line]
        self.assertGreaterEqual(len(told), 1)
        self.assertIn("the last it completed was call 3", told[0])

    def test_call_whose_messages_do_not_describe_it(self):
        told = self.lines("sleeps", TUTTI_VERIFY="off")
        self.assertGreaterEqual(len(told), 1)
        self.assertIn("allreduce(sum, f32, count 1000), call 4 on rank", told[0])

    def test_lost_rank(self):
        told = [line for line in self.lines("dies") if "The records say: Rank 2 is gone" in line]
        self.assertEqual(len(told), 1, "the rank that saw it first tells it")

    def test_mismatch(self):
        self.assertTrue(any("The records say: The ranks do not agree on call 4 of world" in line for line in self.lines("other_count")))


class Others(unittest.TestCase):
    def test_no_job_and_wrong_words(self):
        done = run(TUTTI, "doctor", "no-such-job")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("no job on this host has a name that begins with 'no-such-job'", done.stderr)
        self.assertIn("--patience", run(TUTTI, "doctor", "--patince", "1").stderr)

    def test_files_that_stay_tell_of_a_job_that_is_over(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(TUTTI, "run", "-np", "4", PROBE, "dies", env=clean_environment(TUTTI_RECORDER=folder))
            self.assertNotEqual(done.returncode, 0)
            found = json.loads(run(TUTTI, "doctor", folder, "--json").stdout)
            self.assertEqual((found[0]["finding"], found[0]["culprits"]), ("lost", [2]), found[0]["text"])
            trace = os.path.join(folder, "trace.json")
            run(TUTTI, "doctor", folder, "--perfetto", trace)
            with open(trace) as file:
                events = json.load(file)["traceEvents"]
            calls = [event for event in events if event["ph"] == "X" and event["name"] == "allreduce"]
            self.assertEqual({event["tid"] for event in calls}, {0, 1, 2, 3})

    def test_nothing_is_recorded_where_that_is_off(self):
        job = Job(self, PROBE, "sleeps", TUTTI_RECORDER="off")
        time.sleep(1)
        self.assertEqual(job.ask().returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
