"""`tutti plan`: counts that are known by hand, checks, what it refuses, its pictures and numbers. No times are judged."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BIN = sys.argv[1]
BOOK = pathlib.Path(__file__).resolve().parents[2] / "docs" / "book"
KINDS = ("allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "gather", "scatter", "alltoall", "barrier")
SVG = "{http://www.w3.org/2000/svg}"


def run(line):
    words = line.split() if isinstance(line, str) else line
    return subprocess.run([os.path.join(BIN, "tutti"), "plan", *words], capture_output=True, text=True, timeout=100)


class Plan(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def shown(self, line):
        done = run(line)
        self.assertEqual((done.returncode, done.stderr), (0, ""), line)
        return done.stdout

    def numbers(self, line):
        self.shown(f"{line} --json {self.file('n.json')}")
        with open(self.file("n.json")) as file:
            return json.load(file)

    def counts(self, line):
        """Of the one algorithm, in one lane."""
        return self.numbers(f"{line} --lanes 1")["algorithms"][0]["counts"]

    def test_ring_allreduce(self):
        found = self.counts("allreduce --ranks 4 --bytes 4K --algorithm ring")
        self.assertEqual((found["rounds"], found["chain"]), (6, 6))
        self.assertEqual(found["messages"], {"within": 24, "between": 0})
        self.assertEqual(found["bytes"]["within"], 24 * 1024)
        self.assertEqual((found["folded"], found["most_from_rank"], found["scratch"]), (3 * 4096, 6 * 1024, 0))

    def test_binomial_broadcast(self):
        found = self.counts("broadcast --ranks 8 --bytes 4K --algorithm binomial")
        self.assertEqual((found["chain"], found["messages"]["within"]), (3, 7))
        self.assertEqual((found["bytes"]["within"], found["folded"], found["most_messages"]), (7 * 4096, 0, 3))

    def test_hierarchical_allreduce_crosses_as_little_as_can_be(self):
        found = self.counts("allreduce --ranks 64 --hosts 8 --bytes 1M --algorithm hierarchical")
        self.assertEqual(found["bytes"]["between"], 2 * 7 << 20)
        self.assertEqual(found["most_from_host"], (2 * 7 << 20) // 8)
        self.assertEqual(found["rounds"], 2 * 7 + 2 * 7)

    def test_lanes_play_the_same(self):
        rows = [self.numbers(f"allreduce --ranks 4 --bytes 4K --algorithm ring --lanes {n}")["algorithms"][0] for n in (1, 4)]
        one, four = (row["counts"] for row in rows)
        self.assertEqual(four["messages"]["within"], 4 * one["messages"]["within"])
        self.assertEqual((four["bytes"], four["rounds"]), (one["bytes"], one["rounds"]))
        self.assertEqual((rows[1]["lanes"], rows[1]["lane_bytes"]), (4, 1024))

    def test_65536_ranks(self):
        found = self.counts("broadcast --ranks 65536 --hosts 8192 --bytes 1K --algorithm hierarchical")
        self.assertEqual(found["messages"], {"within": 8192 * 7, "between": 8191})
        self.assertEqual(found["chain"], 13 + 3)
        found = self.counts("allreduce --ranks 65536 --hosts 8192 --bytes 1M --algorithm ring")  # played by one host
        self.assertEqual(found["messages"], {"within": 2 * 65535 * 8192 * 7, "between": 2 * 65535 * 8192})
        self.assertEqual(found["rounds"], 2 * 65535)

    def test_what_is_too_much_is_counted_by_formulas(self):
        line = "allreduce --ranks 65536 --hosts 8192 --layout turns --algorithm ring --lanes 1"
        found = self.numbers(line)["algorithms"][0]
        self.assertIsNone(found["replay"])
        self.assertIsNone(found["counts"])
        shown = self.shown(line)
        self.assertRegex(shown, r"rounds +131,070 in a lane, by its formula")
        self.assertRegex(shown, r"replay +not replayed: more than [\d,]+ messages; --whole replays them")
        self.assertRegex(shown, r"check +skipped: 65,536 ranks; --check does it")

    def test_nothing_is_wrong_with_any_algorithm(self):
        for layout in ("--layout 5,1,3,2,1", "--ranks 16 --hosts 5 --layout turns", "--ranks 12 --hosts 4"):
            for kind in KINDS:
                root = "--root 6" if kind in ("reduce", "broadcast", "gather", "scatter") else ""
                rows = self.numbers(f"{kind} {layout} {root} --bytes 4004 --algorithm all --check")["algorithms"]
                self.assertGreater(len(rows), 1, kind)
                self.assertEqual([row["algorithm"] for row in rows if not row["check"].startswith("right")], [], (kind, layout))
                self.assertEqual(sum(row["chosen"] for row in rows), 1)

    def test_what_was_checked_is_said(self):
        self.assertRegex(self.shown("allreduce --ranks 12 --hosts 3 --bytes 1K"), r"check +right: each contribution once, no deadlock\n")
        self.assertRegex(self.shown("barrier --ranks 12"), r"check +right: no deadlock\n")
        self.assertRegex(self.shown("broadcast --ranks 3000 --bytes 4"), r"check +skipped: 3,000 ranks; --check does it")
        self.assertRegex(self.shown("broadcast --ranks 3000 --bytes 4 --check"), r"check +right")

    def test_the_rounds_of_a_rank(self):
        shown = self.shown("allreduce --ranks 4 --hosts 2 --bytes 64 --algorithm ring --lanes 1 --rank 1 --steps 3")
        rounds = shown.split("\nrank 1 (host 0)\n")[1]
        self.assertEqual(rounds, "    0  send 2 (host 1) in[0,4) | recv_reduce 0 (host 0) out[12,16) = in[12,16) (op) received\n"
                         "    1  send 2 (host 1) out[12,16) | recv_reduce 0 (host 0) out[8,12) = in[8,12) (op) received\n"
                         "    2  send 2 (host 1) out[8,12) | recv_reduce 0 (host 0) out[4,8) = in[4,8) (op) received last\n"
                         "  ... and 3 more rounds, which --steps 6 prints\n")
        shown = self.shown("broadcast --ranks 8 --bytes 64 --algorithm binomial --rank all")
        self.assertEqual(re.findall(r"^rank (\d+)$", shown, re.M), [str(rank) for rank in range(8)])
        self.assertNotIn("more round", shown)

    def test_the_rounds_of_a_lane(self):
        line = "allreduce --ranks 4 --bytes 104 --algorithm ring --lanes 4 --rank 0 --steps 1 --lane"  # 7, 7, 7 and 5 elements
        self.assertIn("    0  send 1 in[6,7) | recv_reduce 3 out[4,6) = in[4,6) (op) received\n", self.shown(f"{line} 2"))
        self.assertIn("    0  send 1 in[4,5) | recv_reduce 3 out[3,4) = in[3,4) (op) received\n", self.shown(f"{line} 3"))
        self.assertIn("; this is lane 3\n", self.shown(f"{line} 3"))
        line = "broadcast --ranks 8 --hosts 8 --bytes 64 --algorithm double_tree --lanes 2 --rank 0 --lane"
        self.assertNotEqual(*(self.shown(f"{line} {lane}").split("\nrank 0")[1] for lane in (0, 1)))  # two trees

    def test_all_algorithms_are_ranked(self):
        shown = self.shown("allreduce --ranks 16 --hosts 4 --net fabric --algorithm all")
        self.assertEqual(len(re.findall(r"^\* \w+ +\d", shown, re.M)), 1)
        for name in ("ring", "hierarchical", "tree", "direct"):
            self.assertRegex(shown, rf"\n[* ] {name} +\S+ \S+ +\S+ \S+ +\d+\.\d\d ")

    def network(self, *flags):
        return re.search(r"^network +(?:(\w+): )?(within .*)$", self.shown(["broadcast", "--ranks", "8", "--hosts", "2", *flags]), re.M).groups()

    def test_networks(self):
        name, levels = self.network("--net", "fabric")
        self.assertEqual(name, "fabric")
        self.assertEqual(self.network("--net", levels), ("fabric", levels))
        self.assertEqual(self.network("--net", "within 1us 3G 0.5us, between 7us 2G 1us, fold 4G"),
                         (None, "within 1us 3G 500ns, between 7us 2G 1us, fold 4G"))
        for text in ("# as measured\n" + levels.replace(", ", "\n\n"), f"allreduce: ..64K=ring;\nnetwork: {levels};\n"):
            with open(self.file("net"), "w") as file:
                file.write(text)
            self.assertEqual(self.network("--net", self.file("net")), ("fabric", levels), text)

    def test_bytes_are_rounded_to_elements(self):
        done = run("allreduce --ranks 4 --bytes 1001 --dtype f64")
        self.assertEqual((done.returncode, done.stderr), (0, "tutti plan: 1001 bytes are no multiple of f64's 8: rounded to 1000\n"))
        self.assertIn("(125 f64)", done.stdout)

    def test_wrong_words(self):
        with open(self.file("net"), "w") as file:
            file.write("within fast\n")
        with open(self.file("rules"), "w") as file:
            file.write("allreduce: ..64K=ring\n")
        for line, *parts in (
                ("", "which collective?"), ("allredcue --ranks 4", "did you mean 'allreduce'?"), ("xyzzy --ranks 4", "one of allreduce, reduce"),
                ("send --ranks 4", "no collective 'send' to plan"), ("allreduce", "--ranks 64, for example"),
                ("allreduce --ranks 0", "--ranks"), ("allreduce --ranks 4 --hosts 5", "--hosts 5", "--ranks 4"),
                ("allreduce --ranks 4 --layout 5,3", "8 ranks", "--ranks 4"), ("allreduce --hosts 3 --layout 5,3", "2 hosts", "--hosts 3"),
                ("allreduce --ranks 4 --layout 5,", "as 5,3,8"), ("allreduce --ranks 4 --layout rows", "as 5,3,8"),
                ("broadcast --ranks 4 --root 4", "--root 4", "0 to 3"), ("allreduce --ranks 4 --root 1", "no root"),
                ("allreduce --ranks 4 --algorithm rign", "'rign'", "cartesian, direct", "or all, or chosen"),
                ("allgather --ranks 6 --algorithm recursive_doubling", "does not fit 6 ranks on 1 host", "--algorithm all"),
                ("allreduce --ranks 4 --bytes many", "many"), ("allreduce --ranks 4 --dtype f31", "'f31'", "bf16"),
                ("allreduce --ranks 4 --net fast", "'fast'", "fabric"), ("allreduce --ranks 4 --net ./none", "./none", "cannot be read", "fabric"),
                (f"allreduce --ranks 4 --net {self.file('net')}", self.file("net"), "within fast"),
                (f"allreduce --ranks 4 --net {self.folder.name}", "cannot be read"), ("allreduce --ranks 4 --rank 4", "0 to 3, or all"),
                ("allreduce --ranks 65 --rank all", "at most 64 ranks"), ("allreduce --ranks 4 --lanes 2 --rank 0 --lane 2", "no --lane 2", "2 lanes, from 0"), ("allreduce --ranks 4 --rank 0 --svg x.svg", "--rank", "--svg"),
                ("allreduce --ranks 4 --algorithm all --rank 0", "--algorithm"), ("allreduce --ranks 4 --sweep lanes", "lanes not in"),
                ("barrier --ranks 4 --sweep bytes", "no bytes"), ("allreduce --layout 2,2 --sweep ranks", "blocks or turns"),
                ("allreduce --ranks 4 --sweep bytes --check", "choose one"), ("allreduce --ranks 4 --replay", "--sweep"), ("allreduce --ranks 65 --svg x.svg", "at most 64 ranks, not 65"),
                ("alltoall --ranks 64 --lanes 2 --svg x.svg", "at most 4,000 messages"), ("allreduce --ranks 4 --algorithm all --svg x.svg", "--sweep"),
                ("allreduce --ranks 4 --lanes -1", "--lanes"), ("allreduce --ranks 4 --lane 0", "add --rank 0"), ("allreduce --ranks 4 --steps 2", "add --rank 0"),
                ("allreduce --ranks 4 --sweep bytes --bytes 1K", "leave --bytes out"), ("allreduce --ranks 4 --sweep ranks --algorithm ring", "leave --algorithm out"),
                ("allreduce --ranks 4 --svg - --json -", "name two"), (f"allreduce --ranks 4 --net {self.file('rules')}", "without a line 'network:'"),
                ("allreduce --ranks 4 --algoritm ring", "'--algoritm'", "'--algorithm'")):
            done = run(line)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (line, done.stderr))
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr, line)

    def test_stdout_has_nothing_else(self):
        self.assertEqual(json.loads(self.shown("allreduce --ranks 4 --json -"))["ranks"], 4)
        self.assertTrue(self.shown("allreduce --ranks 4 --bytes 64 --svg -").lstrip().startswith("<"))

    def test_a_file_that_cannot_be_written(self):
        for flag in ("--svg", "--json"):
            done = run(f"allreduce --ranks 4 --bytes 64 {flag} {self.file('none/x')}")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"{self.file('none/x')}: cannot be written", done.stderr)

    def drawn(self, line):
        self.shown(f"{line} --svg {self.file('p.svg')}")
        return xml.etree.ElementTree.parse(self.file("p.svg")).getroot()

    def test_pictures(self):
        schedule = self.drawn("allreduce --ranks 12 --hosts 3 --bytes 1K --algorithm hierarchical --lanes 1")
        texts = ["".join(text.itertext()) for text in schedule.iter(SVG + "text")]
        self.assertEqual([text for text in texts if text.startswith("host ")], ["host 0", "host 1", "host 2"])
        self.assertIn("time (us)", texts)
        folds = max(path.get("d").count("h.01") for path in schedule.iter(SVG + "path"))
        self.assertEqual(folds, 12 * 3 + 12 * 2)  # of each rank, in the rings of its host and of its column
        costs = self.drawn("allreduce --ranks 12 --hosts 3 --sweep bytes")
        texts = ["".join(text.itertext()) for text in costs.iter(SVG + "text")]
        for text in ("bytes", "ring", "hierarchical", "lower bound", "8 B"):
            self.assertIn(text, texts)
        for picture in (schedule, costs):
            self.assertEqual(picture.tag, SVG + "svg")
            self.assertEqual({element.tag.removeprefix(SVG) for element in picture.iter()} - {"svg", "title", "text", "g", "path", "rect", "circle"}, set())

    def test_sweeps(self):
        for kind, axis in (("allreduce", "bytes"), ("broadcast", "ranks"), ("barrier", "hosts")):
            found = self.numbers(f"{kind} --ranks 32 --hosts 8 --sweep {axis}")
            self.assertEqual(found["sweep"], axis)
            self.assertEqual({len(found[key]) for key in ("values", "bound", "chosen")}, {len(found["values"])})
            self.assertLessEqual(set(found["chosen"]), {line["algorithm"] for line in found["algorithms"]})
            shown = self.shown(f"{kind} --ranks 32 --hosts 8 --sweep {axis}")
            self.assertEqual(len(re.findall(r" \*\d", shown)), len(found["values"]))

    def test_a_sweep_by_replay(self):
        line = "broadcast --ranks 16 --hosts 4 --bytes 4K --net fabric"
        found = self.numbers(f"{line} --sweep ranks --replay")
        rows = {row["algorithm"]: row for row in self.numbers(f"{line} --algorithm all")["algorithms"]}
        for swept in found["algorithms"]:
            self.assertEqual(swept["replayed"], [True] * 4)
            self.assertEqual(swept["seconds"][-1], rows[swept["algorithm"]]["replay"])
        self.assertEqual([name for name, row in rows.items() if row["chosen"]], [found["chosen"][-1]])
        self.assertIn("chosen / best", self.shown(f"{line} --sweep ranks --replay"))

    def test_pictures_of_the_book_are_those_of_the_command(self):
        chapters = "".join(path.read_text() for path in sorted(BOOK.glob("*.md")))
        commands = re.findall(r"^tutti plan (.*--svg docs/book/(pictures/\S+\.svg))$", chapters, re.M)
        self.assertEqual({picture for _, picture in commands}, {f"pictures/{path.name}" for path in (BOOK / "pictures").glob("*")})
        for line, picture in commands:
            self.assertIn(f"]({picture})", chapters)
            drawn = line.replace(f"docs/book/{picture}", self.file("p.svg")).replace('"', "")
            self.shown(drawn)
            kept, made = (pathlib.Path(path).read_text() for path in (BOOK / picture, self.file("p.svg")))
            self.assertLess(len(kept), 60_000, picture)
            self.assertEqual(title_of(kept), title_of(made), f"{picture} is not what `tutti plan {line}` draws")


def title_of(svg):
    return re.search(r"<title>(.*)</title>", svg)[1]


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
