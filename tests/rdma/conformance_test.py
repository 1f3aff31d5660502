"""The conformance suite over RDMA: the contract of transports, every collective, every algorithm; and no message without room."""

import os
import pathlib
import unittest

import devices


class Conformance(unittest.TestCase):
    def assert_ok(self, done):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""))

    def test_the_contract_of_transports(self):
        for count in (2,) if devices.THIN else (1, 2, 3, 4):
            with self.subTest(ranks=count):
                done = devices.ranks(count, "transport_conformance", TUTTI_TEST_PROVIDER="ibverbs")
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-1000:])
                self.assertIn("[  PASSED  ]", done.stdout)

    def test_collectives(self):
        for count in (2,) if devices.THIN else (2, 3, 4):
            with self.subTest(ranks=count):
                before = devices.counters()
                self.assert_ok(devices.ranks(count, "world_probe", "cases", "rest"))
                after = devices.counters()
                self.assertGreater(after["rdma_sends"], before["rdma_sends"] + 100)  # it did go this way

    @unittest.skipIf(devices.THIN, "too slow under a sanitizer")
    def test_algorithms(self):
        self.assert_ok(devices.ranks(3, "world_probe", "algorithms"))

    def test_both_within_a_host_and_between_hosts(self):
        for hosts in ("aabb",) if devices.THIN else ("ab", "aabb"):
            with self.subTest(hosts=hosts):
                self.assert_ok(devices.on_hosts(hosts, "world_probe", "cases", "rest"))

    def test_memory_that_was_mapped_anew(self):
        before = devices.counters()
        done = devices.ranks(2, "loop_probe", "anew", 1 << 20, 10)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""))
        # They went past the slots, which would have taken 86 each.
        self.assertLess(devices.counters()["rdma_sends"] - before["rdma_sends"], 10 * 30)

    def test_memory_that_stays_registered(self):
        for transport in ("ibverbs", "shm,ibverbs"):
            with self.subTest(transport=transport):
                before = devices.counters()
                done = devices.run(*devices.command("run", "-np", 2), "bash", "-c", 'TUTTI_HOST_ID="h$TUTTI_RANK" exec "$0" "$@"',
                                   os.path.join(devices.TESTS, "loop_probe"), "kept", 1 << 20, 10, TUTTI_TRANSPORT=transport)
                self.assert_ok(done)
                self.assertLess(devices.counters()["rdma_sends"] - before["rdma_sends"], 10 * 30)

    @unittest.skipIf(devices.THIN, "a sanitizer wants to be loaded first")
    def test_memory_that_stays_registered_is_not_registered_for_a_message(self):
        script = 'export TUTTI_HOST_ID="h$TUTTI_RANK" LD_PRELOAD="$0"; exec "$@"'
        for transport in ("ibverbs", "shm,ibverbs"):
            for mode, refused in (("kept", False), ("anew", True)):
                with self.subTest(transport=transport, mode=mode):
                    before = devices.counters()
                    done = devices.run(*devices.command("run", "-np", 2), "bash", "-c", script, os.path.join(devices.TESTS, "refuse_posts.so"),
                                       os.path.join(devices.TESTS, "loop_probe"), mode, 1 << 20, 10, TUTTI_TRANSPORT=transport,
                                       TEST_REFUSE_MESSAGES="1")
                    self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
                    through_slots = devices.counters()["rdma_sends"] - before["rdma_sends"] > 10 * 80
                    told = "large messages are copied, as 1 MiB of memory cannot be registered with rxe0" in done.stderr
                    self.assertEqual((through_slots, told), (refused, refused), done.stderr)

    @unittest.skipIf(devices.THIN, "so slow that cards repeat what is answered late")
    def test_bytes_on_the_wire(self):
        if not devices.several():
            self.skipTest("there is but one device, whose ranks are joined by no network (tests/rdma/run --devices 2)")
        def sent():
            return [int(pathlib.Path(f"/sys/class/net/rdma{i}/statistics/tx_bytes").read_text()) for i in (0, 1)]

        count, times = 1 << 19, 2
        for _ in range(10):  # until the cards have repeated nothing: packets overtake others between two processors
            before, repairs = sent(), devices.repairs()
            done = devices.run(*devices.command("run", "-np", 2), *devices.each_on_its_own("loop_probe", "sum", count, times),
                               TUTTI_TRANSPORT="ibverbs", TUTTI_SELECT="allreduce: 0.. = ring")
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
            shares = [(now - then) / (4 * count * times) for now, then in zip(sent(), before)]
            if devices.repairs() == repairs:
                break
        else:
            self.fail("the cards repeated packets in each of ten runs")
        for share in shares:  # two ranks: each sends every byte once
            self.assertLess(abs(share - 1), 0.05, shares)

    def tearDown(self):
        now = devices.counters()
        self.assertEqual((now["rcvd_rnr_err"], now["send_rnr_err"]), (0, 0), "a receiver was not ready")


if __name__ == "__main__":
    devices.main()
