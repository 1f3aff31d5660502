"""What may go wrong over RDMA: ranks that die, networks that lose packets or fall silent, what is left behind, how waiting ranks sleep."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import devices


class Looping:
    """Ranks that allreduce again and again."""

    def __init__(self, count, elements, **variables):
        self.process = subprocess.Popen(
            devices.command("run", "-np", count, "--grace", 20) + devices.each_on_its_own("loop_probe", "loop", elements),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TUTTI_TRANSPORT": "ibverbs", "TUTTI_TUNING": "off", **variables})
        self.pids, self.ends = {}, {}
        while len(self.pids) < count:
            text = self.process.stdout.readline()
            if not text:
                raise RuntimeError("the ranks ended: " + self.process.communicate()[1])
            found = re.match(r"rank (\d+) is process (\d+)", text)
            if found:
                self.pids[int(found[1])] = int(found[2])

    def finish(self, timeout=60):
        """What the ranks say of their errors: rank -> (when, what)."""
        said, problems = self.process.communicate(timeout=timeout)
        for text in said.splitlines():
            found = re.match(r"rank (\d+): (\d+): (.*)", text)
            if found:
                self.ends[int(found[1])] = (int(found[2]) / 1e9, found[3])
        return problems

    def kill(self):
        self.process.kill()
        self.process.communicate()


class Faults(unittest.TestCase):
    def setUp(self):
        if not devices.several():
            self.skipTest("there is but one device, whose ranks are joined by no network (tests/rdma/run --devices 2)")

    def impair(self, *how):
        """The networks of both devices, for packets that leave."""
        for name in ("rdma0", "rdma1"):
            self.addCleanup(devices.run, "tc", "qdisc", "del", "dev", name, "root")
            added = devices.run("tc", "qdisc", "add", "dev", name, "root", "netem", *how)
            self.assertEqual(added.returncode, 0, added.stderr)

    def start(self, *arguments, **variables):
        looping = Looping(*arguments, **variables)
        self.addCleanup(lambda: looping.process.poll() is None and looping.kill())
        return looping

    def test_a_killed_rank_is_named_at_once(self):
        for elements in (4, 1 << 18):
            with self.subTest(elements=elements):
                looping = self.start(3, elements)
                killed = time.monotonic()
                os.kill(looping.pids[1], signal.SIGKILL)
                looping.finish()
                self.assertEqual(set(looping.ends), {0, 2})
                for _, what in looping.ends.values():
                    self.assertIn("rank 1", what)
                    self.assertIn("its process died or was killed", what)  # not that it does not answer: cards say that much later
                print(f"known after {max(when for when, _ in looping.ends.values()) - killed:.3f} s")

    def test_a_silent_network_ends_with_the_name_of_the_peer(self):
        looping = self.start(2, 1000, TUTTI_TIMEOUT="6")
        self.impair("loss", "100%")
        cut = time.monotonic()
        looping.finish()
        self.assertEqual(set(looping.ends), {0, 1})
        silent = r"rank [01] on host \S+ has fallen silent \(no answer to RDMA packets on rxe[01] port 1"
        # Whoever notices first hangs up, and the other one may hear of that before its own card gives up.
        self.assertRegex(" / ".join(what for _, what in looping.ends.values()), silent)
        for _, what in looping.ends.values():
            self.assertRegex(what, silent + r"|rank [01] on host \S+ closed the connection")  # not that time is up
        print(f"known after {max(when for when, _ in looping.ends.values()) - cut:.3f} s")

    @unittest.skipIf(devices.THIN, "a sanitizer wants to be loaded first")
    def test_a_device_that_refuses_requests_is_told_of(self):
        for what, count, verb in (("SENDS", 40, "send"), ("RECEIVES", 60, "receive")):
            with self.subTest(verb=verb):
                script = '[ "$TUTTI_RANK" = 0 ] || export LD_PRELOAD="$0"; exec "$@"'
                done = devices.run(*devices.command("run", "-np", 2), "bash", "-c", script,
                                   os.path.join(devices.TESTS, "refuse_posts.so"), os.path.join(devices.TESTS, "loop_probe"),
                                   "loop", "1000", TUTTI_TRANSPORT="ibverbs", TUTTI_TIMEOUT="30", **{"TEST_REFUSE_" + what: str(count)})
                told = re.findall(r"rank (\d): \d+: (.*)", done.stdout)
                self.assertEqual(len(told), 2, done.stdout + done.stderr)
                for _, text in told:
                    self.assertRegex(text, rf"rank 1 .*cannot go on: the RDMA device rxe\d refuses to {verb} \(Cannot allocate "
                                           r"memory\); see what the kernel says of it \(`dmesg`\), choose another")

    def test_lost_and_late_packets_are_made_good(self):
        self.impair("loss", "2%", "delay", "1ms")
        before = devices.repairs()
        done = devices.run(*devices.command("run", "-np", 2), *devices.each_on_its_own("loop_probe", "sum", 20000, 20),
                           TUTTI_TRANSPORT="ibverbs", TUTTI_TIMEOUT="60")
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
        self.assertGreater(devices.repairs(), before)

    def test_large_messages_take_all_ports_and_go_on_without_one(self):
        def packets():
            return [devices.counters(device)["sent_pkts"] for device in ("rxe0", "rxe1")]

        def stream(times):
            return subprocess.Popen(
                devices.command("run", "-np", 2, os.path.join(devices.TESTS, "loop_probe"), "stream", 1 << 20, times),
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "TUTTI_TRANSPORT": "ibverbs", "TUTTI_TUNING": "off"})

        before = packets()
        said, problems = stream(20).communicate(timeout=60)
        self.assertGreater(float(said), 0, problems)
        for now, then in zip(packets(), before):
            self.assertGreater(now - then, 10 * 256)  # of 4096 bytes; the half of the messages each
        started = stream(80)
        self.addCleanup(lambda: started.poll() is None and started.kill())
        self.addCleanup(devices.run, "ip", "link", "set", "rdma1", "up")
        then = packets()
        while packets()[1] < then[1] + 10 * 256 and started.poll() is None:
            time.sleep(0.01)
        devices.run("ip", "link", "set", "rdma1", "down")
        self.assertIsNone(started.poll())
        said, problems = started.communicate(timeout=100)
        self.assertGreater(float(said or 0), 0, problems)
        self.assertRegex(problems, r"warning: RDMA device rxe1: port error, port 1")

    @unittest.skipIf(devices.THIN, "a sanitizer wants to be loaded first")
    def test_a_further_device_that_breaks_down_is_done_without(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "broken")
            for device, code in (("", 0), ("rxe1", 1)):  # where it is the only one, the job ends
                with self.subTest(devices=device):
                    started = subprocess.Popen(
                        devices.command("run", "-np", 2, os.path.join(devices.TESTS, "loop_probe"), "stream", 1 << 20, 80),
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                        env={**os.environ, "TUTTI_TRANSPORT": "ibverbs", "TUTTI_TUNING": "off", "TUTTI_IB_DEVICE": device,
                             "TEST_BREAK_RXE1": broken, "LD_PRELOAD": os.path.join(devices.TESTS, "refuse_posts.so")})
                    self.addCleanup(lambda: started.poll() is None and started.kill())
                    before = devices.counters("rxe1")["sent_pkts"]
                    while devices.counters("rxe1")["sent_pkts"] < before + 10 * 256 and started.poll() is None:
                        time.sleep(0.01)
                    open(broken, "w").close()
                    said, problems = started.communicate(timeout=100)
                    os.unlink(broken)
                    self.assertEqual(started.returncode, code, problems)
                    self.assertIn("warning: RDMA device rxe1: local catastrophic error", problems)
                    self.assertEqual("has lost its RDMA device rxe1 (local catastrophic error)" in problems, code == 1, problems)
                    self.assertEqual(float(said or 0) > 0, code == 0)

    def test_nothing_is_left_behind(self):
        before = self.resources()
        self.assertEqual(devices.ranks(3, "loop_probe", "sum", "1000", "3").stdout, "ok\n")
        looping = self.start(3, 1000)
        during = self.resources()
        os.kill(looping.pids[0], signal.SIGKILL)
        looping.finish()
        self.assertEqual(self.resources(), before)
        pairs = during["mr"] - before["mr"]
        self.assertIn(pairs, (4, 6))  # between the ranks that talk, at both ends
        self.assertEqual(during["qp"] - before["qp"], 2 * pairs)  # for slots, and for large messages

    def resources(self):
        """How many of each kind the kernel keeps, for all devices."""
        said = devices.run("rdma", "resource", "show").stdout
        found = re.findall(r"\b(qp|cq|mr|pd|ctx) (\d+)", said)
        return {what: sum(int(number) for name, number in found if name == what) for what in ("qp", "cq", "mr", "pd", "ctx")}

    def test_who_waits_sleeps(self):
        def slept(seconds):
            done = devices.ranks(2, "loop_probe", "wait", seconds)
            return int(re.search(r"rank 1: slept (\d+) times", done.stdout)[1])

        # Beside what it takes to fall asleep: it sleeps, and looks for itself some 40 times a second. Slower
        # machines wake less often.
        more = slept(6) - slept(2)
        self.assertGreater(more, 4 * 2)
        self.assertLess(more, 4 * 100)


if __name__ == "__main__":
    devices.main()
