"""benchmarks/speed/run: verdicts, the rows that are kept, and a small set of rows from end to end."""

import importlib.machinery
import importlib.util
import json
import math
import pathlib
import subprocess
import tempfile
import unittest

from bench_test import BIN, CLEAN

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/speed/run"
LOADER = importlib.machinery.SourceFileLoader("speed_run", str(SCRIPT))
speed = importlib.util.module_from_spec(importlib.util.spec_from_loader("speed_run", LOADER))
LOADER.exec_module(speed)


class Parts(unittest.TestCase):
    def test_verdicts(self):
        for figure, most, said in ((1.3, False, "goal"), (1.25, False, "goal"), (1.1, False, "met"), (0.9, False, "short by 10 %"),
                                   (0.5, True, "goal"), (1.0, True, "met"), (1.2, True, "short by 20 %")):
            line = speed.Line(1, "x", figure, 1.0, 0.6 if most else 1.25, most=most)
            self.assertEqual(line.verdict(), said, (figure, most))
        self.assertEqual(speed.Line(1, "x", None, 1, 2, why="no peer is here").verdict(), "not measured: no peer is here")
        line = speed.Line(1, "x", 1.1, 1, 2, caveats=("without intel", "of 2 rounds"))
        self.assertEqual((line.verdict(), line.holds()), ("met, without intel, of 2 rounds", True))

    def test_falling_times(self):
        self.assertEqual(speed.most_fall([1, 2, 2, 3]), 0)
        self.assertAlmostEqual(speed.most_fall([1, 3, 2.9, 2.5, 4]), 20)

    def test_the_rows_that_are_kept(self):
        document = json.loads((SCRIPT.parent / "rows.json").read_text())
        self.assertEqual({row["row"] for row in document["rows"]}, set(range(1, 17)))
        rows = list(speed.expanded(document["rows"]))
        for row in rows:
            if "kind" not in row:
                self.assertIn(row.get("peers", "modern"), document["peers"], row)
                self.assertLessEqual(row["least"], row["goal"], row)
        listed = subprocess.run([SCRIPT, "--list"], capture_output=True, text=True, timeout=60)
        self.assertEqual((listed.returncode, len(listed.stdout.splitlines())), (0, len(rows)), listed.stderr)

    def test_sizes_reach_their_bounds(self):
        """A sweep by a factor ends at its last size, so that no target is missed by a step."""
        for row in json.loads((SCRIPT.parent / "rows.json").read_text())["rows"]:
            if "sizes" not in row or ".." not in row["sizes"]:
                continue
            first, last, factor = [*speed.sizes_flags(row["sizes"])[1::2], "2"][:3]
            steps = math.log(speed.bytes_of(last) / speed.bytes_of(first)) / math.log(2**0.5 if factor == "sqrt2" else float(factor))
            self.assertAlmostEqual(steps, round(steps), 6, row)

    def test_every_step_of_the_sweep_lies_within_one_range(self):
        """Or a time that falls from one range to the next would not be seen."""
        ranges = {}
        for row in speed.expanded(json.loads((SCRIPT.parent / "rows.json").read_text())["rows"]):
            if "monotone" in row:
                ranges.setdefault((row["op"], row["np"]), []).append([speed.bytes_of(end) for end in speed.sizes_flags(row["sizes"])[1:4:2]])
        self.assertEqual(len(ranges), 9 * 3)
        for key, found in ranges.items():
            self.assertEqual([found[0][0], *(last for _, last in found)], [*(first for first, _ in found), 128 << 20], key)
            self.assertEqual(found[0][0], 8)


class Rows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_rows(self, rows, peers, *words):
        (self.folder / "rows.json").write_text(json.dumps({"peers": {"modern": peers}, "rows": rows}))
        done = subprocess.run([SCRIPT, "--file", self.folder / "rows.json", "--bin", BIN, "--rounds", "1", "--iterations", "4", "--json",
                               self.folder / "result.json", *words], capture_output=True, text=True, timeout=200, env=CLEAN)
        table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("| ")]
        return done, table[1:]  # without the heading; the ruler has no blank

    def test_figures_beside_targets(self):
        peer = next((name for name in ("openmpi", "mpich") if (BIN / "bench-peers" / name).exists()), None)
        if not peer:
            self.skipTest("neither Open MPI nor MPICH was there when this was built")
        common = {"op": "allreduce", "np": 2, "sizes": "64..1K xsqrt2"}
        rows = [{"row": 1, **common, "least": 0.0001, "goal": 0.0001, "memory": "allocated", "monotone": 1e9},
                {"row": 2, **common, "least": 1e9, "goal": 1e9, "transport": "tcp"},
                {"row": 3, "op": "barrier", "np": 2, "sizes": "8", "least": 0.0001, "goal": 1e9},
                {"row": 4, "kind": "late", "op": "allreduce", "np": 2, "sizes": "8", "late": 0.02, "most": {"us": [1e9, 1e9]}},
                {"row": 5, "kind": "overlap", "op": "allreduce", "np": 2, "sizes": "8", "overlap": "idle", "least": {"overlap_pct": [0, 0]}}]
        done, table = self.run_rows(rows, [peer])
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([(line[0], line[8].removesuffix(", 1 not steady")) for line in table],  # on a busy machine
                         [("1", "goal, of 1 round"), ("1", "goal"), ("2", "short by 100 %, of 1 round"), ("3", "met, of 1 round"),
                          ("4", "goal"), ("5", "goal")], done.stdout)
        kept = json.loads((self.folder / "result.json").read_text())["cases"]
        ours, theirs = kept[0]["result"]["implementations"]
        self.assertEqual([row["bytes"] for row in ours["rows"]], [64, 92, 128, 180, 256, 364, 512, 724, 1024])
        worst = min(theirs["rows"], key=lambda row: row["ratio"])
        self.assertTrue(table[0][1].startswith("allreduce 64..1K xsqrt2, p=2, allocated: at "), table[0])
        self.assertEqual((table[0][3], table[0][5].split()[0]), (peer, speed.number(worst["ratio"])))
        done, table = self.run_rows(rows, [peer], "--rows", "3")
        self.assertEqual((done.returncode, len(table)), (0, 1), done.stdout + done.stderr)

    def test_what_cannot_be_measured_says_why(self):
        done, table = self.run_rows([{"row": 1, "op": "allreduce", "np": 2, "sizes": "8", "least": 1, "goal": 2}], ["nobody:best"])
        self.assertEqual(done.returncode, 1)
        self.assertEqual(table[0][8], "not measured: no peer is here")
        done, table = self.run_rows([], [], "--rows", "99")
        self.assertIn("there is no such row: see --list", done.stderr)


if __name__ == "__main__":
    unittest.main()
