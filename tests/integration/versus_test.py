"""tutti bench --versus: the peers side by side, the files it writes, named and failing peers, settings of one's own."""

import csv
import io
import json
import pathlib
import re
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

from bench_test import BIN, CLEAN, QUICK, tutti


def built_peers():
    return [name for name in ("openmpi", "mpich", "gloo") if (BIN / "bench-peers" / name).exists()]


class Versus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = CLEAN | {"XDG_CACHE_HOME": str(self.folder / "cache")}

    def compare(self, *words, code=0):
        return tutti("bench", "allreduce", *QUICK, "--rounds", "2", *words, code=code, env=self.environment)

    def test_all_peers_side_by_side(self):
        peers = built_peers()
        if not peers:
            self.skipTest("no Open MPI, MPICH or Gloo was there when this was built")
        names = peers + [name + ":best" for name in peers if name != "gloo"]
        files = {kind: self.folder / f"result.{kind}" for kind in ("csv", "json", "svg")}
        text = self.compare("--versus", ",".join(names), "--plot", *[f"--{kind}={file}" for kind, file in files.items()]).stdout
        found = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
        ours = ["tutti shm", "tutti tcp"] if "gloo" in peers and len(peers) > 1 else ["tutti tcp" if peers == ["gloo"] else "tutti shm"]
        self.assertEqual([row["impl"] for row in found], [name for name in [*sorted(ours, key=self.order(text)), *names] for _ in range(3)])
        document = json.loads(files["json"].read_text())
        rounds = str(2 - len(document["rounds_left_out"]))  # those in which the machine was in another state
        for row in found:
            self.assertEqual((row["op"], row["dtype"], row["ranks"], row["rounds"]), ("allreduce", "f32", "2", rounds))
            self.assertLessEqual(float(row["least_us"]), float(row["median_us"]))
            against = [one for one in found if one["against"] == row["impl"] and one["bytes"] == row["bytes"]]
            best = [(one["ratio"], float(one["median_us"])) for one in against if one["impl"] == row["best"]]
            self.assertEqual(best, [(row["best_ratio"], min(float(one["median_us"]) for one in against))] if against else [])
            if row["impl"] in names:
                self.assertEqual(row["against"], "tutti tcp" if row["impl"] == "gloo" else "tutti shm")
                self.assertLessEqual(float(row["ratio_min"]), float(row["ratio"]))
                self.assertLessEqual(float(row["ratio"]), float(row["ratio_max"]))
        self.same_in_json(found, document)
        self.same_in_table(found, text)
        self.one_line_each(files["svg"], [*ours, *names])
        for row in found[::3]:
            self.assertIn(f"  {row['impl']}  ({row['version']})", text)  # the plot's legend

    def order(self, text):
        head = next(line for line in text.splitlines() if line.startswith("#   size (B)"))
        return head.index

    def same_in_json(self, found, document):
        flat = [(one["impl"], str(row["bytes"]), row["median_us"], row.get("ratio")) for one in document["implementations"] for row in one["rows"]]
        self.assertEqual(flat, [(row["impl"], row["bytes"], float(row["median_us"]), float(row["ratio"]) if row["ratio"] else None)
                                for row in found])

    def same_in_table(self, found, text):
        lines = {line.split()[0]: line for line in text.splitlines() if re.match(r" +\d+  ", line)}
        for row in found:
            if row["ratio"]:
                spread = f"({float(row['ratio_min']):.2f} to {float(row['ratio_max']):.2f})"
                shown = re.findall(r"\(([\d.]+) to ([\d.]+)\)", lines[row["bytes"]])
                self.assertTrue(any(abs(float(low) - float(row["ratio_min"])) < 0.011 and abs(float(high) - float(row["ratio_max"])) < 0.011
                                    for low, high in shown), (spread, lines[row["bytes"]]))

    def test_sizes_in_steps_of_sqrt_2(self):
        if not built_peers():
            self.skipTest("no Open MPI, MPICH or Gloo was there when this was built")
        (self.folder / "mine.yaml").write_text(f"{built_peers()[0]}: {{variants: {{mine: {{from: 700}}}}}}\n")  # in two jobs
        tutti("bench", "allreduce", "-e", "2K", "-f", "sqrt2", "-n", "4", "--rounds", "2", "--versus", built_peers()[0] + ":mine",
              "--variants", self.folder / "mine.yaml", "--json", self.folder / "result.json", env=self.environment)
        found = json.loads((self.folder / "result.json").read_text())
        ours, theirs = ([row["bytes"] for row in one["rows"]] for one in found["implementations"])
        self.assertEqual(ours, theirs)
        self.assertEqual(ours, [8, 12, 16, 24, 32, 44, 64, 92, 128, 180, 256, 364, 512, 724, 1024, 1448, 2048])
        self.assertTrue(len(found["flag_ns"]) == 2 and set(found["rounds_left_out"]) <= {1, 2}, found)

    def test_overlap_and_late_ranks_of_all(self):
        peers = built_peers()
        for mode, extras in ((["--overlap", "compute"], ["call_us", "compute_us", "overlap_pct", "slowdown"]),
                             (["--late", "0.02"], ["waiting_cpu_pct", "all_out_us"])):
            able = [name for name in peers if name != "gloo" or mode[0] == "--late"]
            text = self.compare(*mode, *(["--versus", ",".join(able)] if able else []), "--csv", self.folder / "result.csv",
                                "--json", self.folder / "result.json").stdout
            found = list(csv.DictReader(io.StringIO((self.folder / "result.csv").read_text())))
            self.assertLessEqual(set(able) | {"tutti shm"} if able else {"tutti"}, {row["impl"] for row in found})
            document = json.loads((self.folder / "result.json").read_text())
            flat = [[row[name] for name in extras] for one in document["implementations"] for row in one["rows"]]
            self.assertEqual(flat, [[float(row[name]) for name in extras] for row in found])
            self.assertEqual(len(re.findall("(?m)^ +2048  [a-z]", text)), len(document["implementations"]), text)
        if "gloo" in peers:
            done = self.compare("--versus", "gloo", "--overlap", "idle", code=1)
            self.assertIn('gloo: cannot be measured (exit code 2, "gloo: gloo is not measured with computing beside its calls")',
                          done.stderr)

    def one_line_each(self, file, names):
        root = xml.etree.ElementTree.parse(file).getroot()
        space = "{http://www.w3.org/2000/svg}"
        lines = root.findall(f".//{space}polyline")
        self.assertEqual(len(lines), len(names))
        self.assertEqual({len(line.get("points").split()) for line in lines}, {3})
        labels = {text.text for text in root.findall(f".//{space}text")}
        self.assertLessEqual(set(names) | {"size", "bus bandwidth (GB/s)", "8 B", "2 KiB"}, labels)

    def test_tutti_alone(self):
        text = self.compare("--transport", "tcp", "--plot", "--explain", "on", "--csv", self.folder / "alone.csv").stdout
        self.assertRegex(text, "(?m)^#   8 to (128|2048) bytes: .*: the least cost")
        found = list(csv.DictReader(io.StringIO((self.folder / "alone.csv").read_text())))
        self.assertEqual([(row["impl"], row["ratio"]) for row in found], [("tutti tcp", "")] * 3)
        self.assertNotIn("ratio", text)
        done = self.compare("--memory", "allocated", "--csv", self.folder / "alone.csv")
        found = list(csv.DictReader(io.StringIO((self.folder / "alone.csv").read_text())))
        self.assertEqual({row["settings"] for row in found}, {"--memory allocated"})

    @unittest.skipUnless((BIN / "bench-peers" / "mpich").exists(), "no MPICH was there when this was built")
    def test_a_named_mpi_is_compiled_once(self):
        spec = f"named={shutil.which('mpicxx.mpich')},{shutil.which('mpiexec.mpich')},MPICH_MARK=1"
        for notices in (1, 0):
            done = self.compare("--versus", "named:best,mpich", "--peer", spec, "--format", "csv")
            found = list(csv.DictReader(io.StringIO(done.stdout)))
            self.assertEqual([row["impl"] for row in found[::3]], ["tutti shm", "named:best", "mpich"])
            self.assertEqual(len({row["version"] for row in found[3:]}), 1)  # one MPI, compiled in two ways
            self.assertIn("MPICH_MARK=1", found[3]["settings"])
            self.assertEqual(done.stderr.count("compiling named with"), notices, done.stderr)
        done = self.compare("--versus", "named:tcp", "--peer", spec, code=1)
        self.assertIn("tutti bench: named:tcp: it is mpich, of which there is no variant 'tcp'", done.stderr)

    def test_a_peer_that_cannot_be_meant_is_one_line_and_exit_code_2(self):
        true = shutil.which("true")
        for spec, said in (("x", "it has no name"), ("=a,b", "it has no name"), (f"x={true}", "it needs two programs"),
                           (f"a/b={true},{true}", "'a/b' is no name"), (f"tutti={true},{true}", "'tutti' is no name"),
                           (f"x=nothing-of-this-name,{true}", "there is no program 'nothing-of-this-name' to compile with"),
                           (f"x={true},/nowhere/mpiexec", "there is no program '/nowhere/mpiexec' to start it with"),
                           (f"x={true},{true},word", "'word' is no VARIABLE=VALUE")):
            done = self.compare("--peer", spec, code=2)
            self.assertEqual(done.stdout, "", spec)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertTrue(done.stderr.startswith(f"tutti bench: --peer {spec}: {said}"), done.stderr)

    def fake(self, name, rank):
        """An MPI whose compiler writes the script `rank`, and whose launcher starts one of it."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "rank").write_text(f"#!/bin/sh\n[ $1 = about ] && echo 'mpi: Fake 1.0' && exit\n{rank}\n")
        (folder / "mpicxx").write_text('#!/bin/sh\n[ $# -lt 2 ] && exit\nwhile [ $1 != -o ]; do shift; done\n'
                                       f'cp {folder}/rank "$2"\nchmod +x "$2"\n')
        (folder / "mpiexec").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
        for file in ("mpicxx", "mpiexec"):
            (folder / file).chmod(0o755)
        return ["--peer", f"{name}={folder}/mpicxx,{folder}/mpiexec"]

    def test_one_that_fails_is_named_and_the_others_go_on(self):
        lines = "".join(f"fake,allreduce,f32,{size},2,1,1,1,{ok}\n" for size, ok in ((8, "yes"), (128, "no"), (2048, "yes")))
        wrong = self.fake("wrong", f"echo '{lines}'")
        silent = self.fake("silent", "true")
        broken = self.fake("broken", "echo 'the weather is too bad' >&2; exit 5")
        unmade = self.fake("unmade", "true")
        (self.folder / "unmade/mpicxx").write_text("#!/bin/sh\n[ $# -lt 2 ] || echo 'x.cpp:1:1: error: no such luck' >&2\nexit 1\n")
        fine = self.fake("fine", f"echo '{lines}' | sed s/no/yes/")
        done = self.compare(*wrong, *silent, *broken, *unmade, *fine, "--format", "csv", code=1)
        said = [line for line in done.stderr.splitlines() if "compiling" not in line]
        self.assertEqual(len(said), 4, done.stderr)
        for line in ("tutti bench: wrong: WRONG RESULTS: allreduce of 128 bytes on 2 ranks",
                     "tutti bench: silent: did not measure the sizes that it was asked for; --verbose shows what it says",
                     "tutti bench: broken: cannot be measured (exit code 5, \"the weather is too bad\"); --verbose shows all that it says",
                     f"tutti bench: unmade: {self.folder}/unmade/mpicxx does not compile its program: "
                     "\"x.cpp:1:1: error: no such luck\"; --verbose shows all that it says"):
            self.assertIn(line, said)
        found = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["impl"] for row in found], ["tutti shm"] * 3 + ["fine"] * 3)
        self.assertEqual({row["median_us"] for row in found[3:]}, {"1.000"})

    def test_variants_of_ones_own(self):
        rank = "for word in $@; do case $word in first=*) at=${word#*=};; last=*) last=${word#*=};; skip=*) skip=${word#*=};; esac; done\n" \
               "while [ $skip -gt 0 ]; do at=$((at * 16)); skip=$((skip - 1)); done\n" \
               "while [ $at -le $last ]; do echo fake,allreduce,f32,$at,2,1,${SPEED:-100},1,yes; at=$((at * 16)); done"
        (self.folder / "mine.yaml").write_text("mpi: {variants: {mine: {from: 100, transport: tcp, env: {SPEED: 7}}}}\n")
        done = self.compare(*self.fake("fake", rank), "--versus", "fake:mine", "--variants", self.folder / "mine.yaml", "--format", "csv")
        found = [row for row in csv.DictReader(io.StringIO(done.stdout)) if row["impl"] == "fake:mine"]
        self.assertEqual([float(row["median_us"]) for row in found], [100, 7, 7])  # 8 bytes are below `from`
        self.assertEqual({(row["against"], row["settings"]) for row in found}, {("tutti tcp", "from 100 bytes: SPEED=7")})
        (self.folder / "mine.yaml").write_text("mpi: {title: A}\nmpi: {title: B}\n")
        done = self.compare("--variants", self.folder / "mine.yaml", code=2)
        self.assertEqual(done.stderr, f"tutti bench: {self.folder}/mine.yaml, line 2: 'mpi' stands here twice\n")
        (self.folder / "mine.yaml").write_text("mpi:\n  variants:\n    mine: {evn: {SPEED: 7}}\n")
        done = self.compare("--variants", self.folder / "mine.yaml", code=2)
        self.assertEqual(done.stderr, f"tutti bench: {self.folder}/mine.yaml, line 3: there is no 'evn' here: did you mean 'env'?\n")

    def test_what_there_is(self):
        for words in (["--peers"], ["--versus", "help"]):
            lines = tutti("bench", *words).stdout.splitlines()
            for name in ("openmpi", "mpich", "gloo"):
                line = next(line for line in lines if line.startswith(name))
                self.assertIn(" here: " if name in built_peers() else " not here: ", line)


if __name__ == "__main__":
    unittest.main()
