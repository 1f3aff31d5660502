"""tests/gpu/worlds.py: what it says of ranks that fail, hang, refuse or have no time, and with which exit code; no device is
wanted, as the ranks are lines of shell. And what is measured of products beside allreduces, on the fake devices."""

import contextlib
import importlib.util
import io
import pathlib
import sys
import tempfile
import types
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "gpu" / "worlds.py"
SPEC = importlib.util.spec_from_file_location("worlds", SCRIPT)
worlds = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(worlds)
TESTS = pathlib.Path(sys.argv[2])

RIGHT, HANGS = "echo ok 9 cases", "exec sleep 600"
WRONG = "echo 'gpu_probe: element 3 is 7, but should be 8' >&2; exit 1"
REFUSES = "echo 'gpu_probe: nccl: two ranks have one device' >&2; exit 1"
CRASHES = "kill -SEGV $$"
LOST = "echo error peer_lost 0.2 culprit 1: rank 1 is gone"
DIES = "kill -KILL $$"
EVER = 1e6  # seconds


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.table = worlds.Table()
        quiet = contextlib.redirect_stdout(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def machine(self, budget=EVER):
        options = types.SimpleNamespace(tests=self.folder, accelerator="cuda", gpus=1, nccl=None, out=self.folder / "out", budget=budget)
        options.out.mkdir(exist_ok=True)
        return worlds.Machine(options)

    def play(self, *ranks, budget=EVER, limit=EVER):
        """How ranks ended that are these lines of shell."""
        (self.folder / "began").unlink(missing_ok=True)
        for rank, line in enumerate(ranks):
            (self.folder / f"rank{rank}").write_text(line)
        program = self.folder / "gpu_probe"
        program.write_text(f"#!/bin/sh\ntouch {self.folder}/began\n. {self.folder}/rank$TUTTI_RANK\n")
        program.chmod(0o755)
        return self.machine(budget).play(len(ranks), ("gpu_probe", "cases"), limit)

    def said(self, verdict, seen, exit_code):
        row = self.table.rows[-1]
        self.assertEqual((row[3], self.table.exit_code()), (verdict, exit_code), row)
        self.assertIn(seen, row[2])
        self.table.rows.clear()


class Worlds(Case):
    def judged(self, ended, *said, **how):
        worlds.judge_world(self.table, "a world", ended, **how)
        self.said(*said)

    def test_by_themselves(self):
        self.judged(self.play(RIGHT, RIGHT), "ok", "9 cases", 0)
        self.judged(self.play(RIGHT, WRONG), "FAILED", "should be 8", 1)
        self.judged(self.play(RIGHT, CRASHES), "FAILED", "exit code -11", 1)

    def test_a_failure_is_one_when_time_is_out_too(self):
        self.judged(self.play(HANGS, WRONG, HANGS, budget=5), "FAILED", "should be 8", 1)

    def test_what_is_stopped_for_want_of_time_was_not_run(self):
        ended = self.play(RIGHT, HANGS, budget=2, limit=60)
        self.judged(ended, "not run", "stopped after 2 s, as no time was left", 1)
        self.judged(ended, "not run", "no time was left", 1, may_refuse=True)
        self.assertIn("no time was left", next((self.folder / "out").iterdir()).read_text())

    def test_what_hangs_has_failed(self):
        ended = self.play(RIGHT, HANGS, limit=1)
        self.judged(ended, "FAILED", "still running after 1 s", 1)
        self.judged(ended, "FAILED", "still running after 1 s", 1, may_refuse=True)

    def test_without_time_nothing_begins(self):
        self.judged(self.play(RIGHT, RIGHT, budget=0), "not run", "never begun", 1)
        self.assertFalse((self.folder / "began").exists())

    def test_refusals(self):
        self.judged(self.play(REFUSES, REFUSES), "skipped", "two ranks have one device", 0, may_refuse=True)
        self.judged(self.play(REFUSES, REFUSES), "FAILED", "two ranks have one device", 1)
        for line, why in ((WRONG, "should be 8"), (CRASHES, "exit code -11")):
            self.judged(self.play(line, line), "FAILED", why, 1, may_refuse=True)

    def test_errors_that_are_wanted(self):
        def judged(*said, **how):
            ended = self.play(*how.pop("ranks"), **how)
            worlds.judge_error(self.table, "an error", ended, ["peer_lost"], victim=1)
            self.said(*said)
        judged("ok", "rank 1 is gone", 0, ranks=(LOST, DIES))
        judged("FAILED", "rank 0: error peer_lost 99", 1, ranks=("echo error peer_lost 99 culprit 1: late", DIES))
        judged("FAILED", "rank 0: error internal", 1, ranks=("echo error internal 0.1 culprit 1: other", DIES))
        judged("FAILED", "rank 1, the victim: gpu_probe: still running", 1, ranks=(LOST, HANGS), limit=4)
        judged("not run", "rank 0: stopped", 1, ranks=(HANGS, DIES), budget=2)
        judged("not run", "rank 0: never begun", 1, ranks=(LOST, DIES), budget=0)


class Parts(Case):
    def test_figures(self):
        for code, cut, verdict in ((1, "", "FAILED"), (None, "stopped", "not run")):
            worlds.judge_figures(self.machine(), self.table, "staged", 2, [worlds.Ended(0), worlds.Ended(code, cut=cut)])
            self.said(verdict, cut, 1)
        worlds.judge_figures(self.machine(), self.table, "cudaipc", 2, [worlds.Ended(0, "figure latency_8 26 us")])
        self.said("MISSED", "26 us", 0)

    def test_compute_sanitizer(self):
        for one, verdict, code in ((worlds.Ended(0, "== ERROR SUMMARY: 0 errors"), "ok", 0),
                                   (worlds.Ended(9, "== ERROR SUMMARY: 1 error"), "FAILED", 1),
                                   (worlds.Ended(1, "== Device not supported"), "skipped", 0),
                                   (worlds.Ended(None, "== Device not supported", cut="stopped"), "not run", 1)):
            worlds.judge_sanitizer(self.table, "memcheck", [one])
            self.said(verdict, "", code)

    def test_parts_that_never_began(self):
        worlds.play_parts(self.machine(budget=1), self.table, list(worlds.PARTS), False)
        self.assertEqual([row[::3] for row in self.table.rows], [(name, "not run") for name in worlds.PARTS])
        self.assertEqual(self.table.exit_code(), 1)

    def test_ctest(self):
        text = "\n".join(("      Start 1: gpu.a", "1/4 Test #1: gpu.a ....   Passed    0.01 sec",
                          "      Start 2: gpu.b", "2: skipped: no CUDA device", "2/4 Test #2: gpu.b .....***Skipped   0.00 sec",
                          "      Start 3: gpu.c", "3/4 Test #3: gpu.c .....***Exception: SegFault  0.00 sec",
                          "      Start 4: gpu.d", "4/4 Test #4: gpu.d .....***Not Run   0.00 sec", "      Start 5: gpu.train"))
        for verdict in ("FAILED", "not run"):
            worlds.judge_ctest(self.table, ["gpu.a", "gpu.b", "gpu.c", "gpu.d", "gpu.train", "gpu.f"], text, "stopped after 9 s", verdict)
            self.assertEqual([row[2:] for row in self.table.rows],
                             [("passed, 0.01 s", "ok"), ("no CUDA device", "skipped"), ("Exception: SegFault, 0.00 s", "FAILED"),
                              ("not built: see ctest.log", "not run"), ("stopped after 9 s", verdict), ("stopped after 9 s", "not run")])
            self.table.rows.clear()
        worlds.judge_ctest(self.table, ["gpu.a"], text)
        self.assertEqual([row[3] for row in self.table.rows], ["ok", "skipped"])  # for want of LibTorch
        self.assertEqual(self.table.exit_code(), 0)


class Products(Case):
    def figures(self, *calls):
        options = types.SimpleNamespace(tests=TESTS, accelerator="fake", gpus=1, nccl=None, out=None, budget=EVER)
        words = ("gpu_figures", "staged", 1 << 20, 64, *calls)
        return worlds.Machine(options).play(2, words, 100, FAKE_STUMBLE="0", **worlds.by("staged"))

    def test_allreduces_last_longer_than_the_products(self):
        ended = self.figures()
        self.assertEqual([one.code for one in ended], [0, 0], ended[0].err)
        self.assertRegex(ended[0].out, r"figure products_slower \S+ % \(\S+ ms alone, \S+ ms beside \d+ allreduces\)")

    def test_allreduces_that_end_before_the_products_are_an_error(self):
        for one in self.figures(8):
            self.assertEqual((one.code, "products_slower" in one.out), (1, False))
            self.assertIn("8 allreduces ended before the products that they were to accompany", one.err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
