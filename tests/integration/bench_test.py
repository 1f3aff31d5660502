"""tutti bench and tutti info as their users run them: every collective, the formats, jobs, peers, mistakes."""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BIN = pathlib.Path(sys.argv.pop(1))
sys.argv = sys.argv[:1]
QUICK = ["-b", "8", "-e", "2K", "-f", "16", "-n", "4", "-w", "1"]
COLLECTIVES = ["allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "gather", "scatter", "alltoall", "sendrecv"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp"}


def tutti(*words, code=0, env=CLEAN):
    done = subprocess.run([BIN / "tutti", *map(str, words)], capture_output=True, text=True, timeout=100, env=env)
    if code is not None and done.returncode != code:
        raise AssertionError(f"tutti {' '.join(map(str, words))}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done


def rows(*words):
    return list(csv.DictReader(io.StringIO(tutti(*words, "--format", "csv").stdout)))


class Bench(unittest.TestCase):
    def test_every_collective_gives_right_results(self):
        for collective in COLLECTIVES:
            for transport in ("shm", "tcp"):
                found = rows("bench", collective, "-np", "3", *QUICK, "--transport", transport, "--root", "1")
                self.assertEqual([row["ok"] for row in found], ["yes"] * 3, (collective, transport))
                self.assertEqual({row["op"] for row in found}, {collective})
                self.assertTrue(all(0 < float(row["min_us"]) <= float(row["median_us"]) <= float(row["p99_us"]) for row in found))

    def test_barrier_has_one_row(self):
        self.assertEqual([row["bytes"] for row in rows("bench", "barrier", "-np", "2", "-n", "5")], ["0"])

    def test_dtypes_and_operators(self):
        for dtype, op in (("bf16", "max"), ("i16", "bxor"), ("f16", "avg"), ("f64", "premul_sum"), ("u8", "prod"), ("i64", "min")):
            found = rows("bench", "allreduce", "-np", "3", *QUICK, "-d", dtype, "-o", op)
            self.assertEqual({(row["dtype"], row["ok"]) for row in found}, {(dtype, "yes")}, (dtype, op))

    def test_untouched_and_unchecked(self):
        self.assertEqual({row["ok"] for row in rows("bench", "allreduce", "-np", "2", *QUICK, "--no-touch")}, {"yes"})
        self.assertEqual({row["ok"] for row in rows("bench", "allreduce", "-np", "2", *QUICK, "-c", "0")}, {"unchecked"})

    def test_human_and_json(self):
        text = tutti("bench", "allreduce", "-np", "2", *QUICK).stdout
        for column in ("size", "count", "type", "redop", "root", "out-of-place", "in-place", "algbw", "busbw", "#wrong"):
            self.assertIn(column, text)
        self.assertIn("every element of every result was right", text)
        found = json.loads(tutti("bench", "reduce", "-np", "2", *QUICK, "--format", "json").stdout)
        self.assertEqual([row["bytes"] for row in found], [8, 128, 2048])
        self.assertEqual({row["in_place"]["wrong"] for row in found}, {0})

    def test_inside_a_job(self):
        found = list(csv.DictReader(io.StringIO(tutti("run", "-np", "3", BIN / "tutti", "bench", "allgather", *QUICK,
                                                      "--format", "csv").stdout)))
        self.assertEqual({(row["ranks"], row["ok"]) for row in found}, {("3", "yes")})

    def test_mistakes_are_one_line_and_exit_code_2(self):
        for words in (["allreduce", "-b", "16", "-e", "8"], ["allreduce", "-f", "1"], ["allredcue"], ["allreduce", "--dtyp", "f32"],
                      ["allreduce", "-o", "band"], ["allreduce", "-d", "f33"], ["allreduce", "-b", "many"], [],
                      ["broadcast", "-np", "2", "--root", "2"], ["allreduce", "--format", "xml"],
                      ["allreduce", "--versus", "nobody"], ["allreduce", "--versus", "mpich:worst"], ["barrier", "--plot"],
                      ["allreduce", "--csv", "no/such/folder/x.csv"], ["allreduce", "--variants", "no/such/file"],
                      ["allreduce", "--lane-bytes", "much"]):
            done = tutti("bench", *words, code=2)
            self.assertEqual(done.stdout, "", words)
            self.assertEqual(len(done.stderr.splitlines()), 1, (words, done.stderr))

    def test_an_algorithm_that_cannot_is_one_line_and_exit_code_2(self):
        for words, said in ((["allreduce", "-np", "3", "--algorithm", "rign"], "allreduce has no algorithm 'rign', but "),
                            (["sendrecv", "--algorithm", "ring"], "sendrecv has no algorithms; leave --algorithm out"),
                            (["allgather", "-np", "3", "--algorithm", "recursive_doubling"],
                             "the algorithm 'recursive_doubling' cannot do allgather on 3 ranks: ")):
            done = tutti("bench", *words, *QUICK, code=2)
            self.assertEqual(done.stdout, "", words)
            self.assertEqual(len(done.stderr.splitlines()), 1, (words, done.stderr))
            self.assertTrue(done.stderr.startswith("tutti bench: " + said), done.stderr)
        job = tutti("run", "-np", "3", BIN / "tutti", "bench", "allgather", *QUICK, "--algorithm", "recursive_doubling", code=2)
        self.assertEqual(job.stderr.count("tutti bench: "), 1, job.stderr)
        self.assertEqual(job.stdout, "")
        self.assertEqual({row["ok"] for row in rows("bench", "allgather", "-np", "4", *QUICK, "--algorithm", "recursive_doubling")},
                         {"yes"})


class Deaths(unittest.TestCase):
    def test_survivors_end_by_themselves(self):
        bench = subprocess.Popen([BIN / "tutti", "bench", "allreduce", "-np", "3", "-b", "1M", "-e", "1M", "-n", "60000"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN)
        self.addCleanup(bench.kill)
        ranks = []
        while len(ranks) < 3 and bench.poll() is None:
            children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children").read_text().split()
            ranks = [int(pid) for pid in children if "tutti-bench" in pathlib.Path(f"/proc/{pid}/maps").read_text()]
        os.kill(ranks[1], signal.SIGKILL)
        stderr = bench.communicate(timeout=60)[1]
        self.assertNotEqual(bench.returncode, 0)
        self.assertEqual(len(re.findall(rf"^tutti bench: .*process {ranks[1]}\b", stderr, re.M)), 2, stderr)
        self.assertIn("exited with code 1", stderr)
        self.assertNotIn("SIGTERM", stderr)


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
        for row in found:
            self.assertEqual((row["op"], row["dtype"], row["ranks"], row["rounds"]), ("allreduce", "f32", "2", "2"))
            self.assertLessEqual(float(row["least_us"]), float(row["median_us"]))
            if row["impl"] in names:
                self.assertEqual(row["against"], "tutti tcp" if row["impl"] == "gloo" else "tutti shm")
                self.assertLessEqual(float(row["ratio_min"]), float(row["ratio"]))
                self.assertLessEqual(float(row["ratio"]), float(row["ratio_max"]))
        self.same_in_json(found, json.loads(files["json"].read_text()))
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

    def one_line_each(self, file, names):
        root = xml.etree.ElementTree.parse(file).getroot()
        space = "{http://www.w3.org/2000/svg}"
        lines = root.findall(f".//{space}polyline")
        self.assertEqual(len(lines), len(names))
        self.assertEqual({len(line.get("points").split()) for line in lines}, {3})
        labels = {text.text for text in root.findall(f".//{space}text")}
        self.assertLessEqual(set(names) | {"size", "bus bandwidth (GB/s)", "8 B", "2 KiB"}, labels)

    def test_tutti_alone(self):
        text = self.compare("--transport", "tcp", "--plot", "--csv", self.folder / "alone.csv").stdout
        found = list(csv.DictReader(io.StringIO((self.folder / "alone.csv").read_text())))
        self.assertEqual([(row["impl"], row["ratio"]) for row in found], [("tutti tcp", "")] * 3)
        self.assertNotIn("ratio", text)

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
        rank = "for word in $@; do case $word in first=*) at=${word#*=};; last=*) last=${word#*=};; esac; done\n" \
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


class Info(unittest.TestCase):
    def test_here(self):
        text = tutti("info").stdout
        for word in ("host", "cores", "folds", "shm", "tcp"):
            self.assertIn(word, text)
        self.assertIn("allreduce", tutti("info", "--algorithms").stdout)

    def test_settings_say_where_they_come_from(self):
        done = subprocess.run([BIN / "tutti", "info", "-c", "--max-lanes", "2"], capture_output=True, text=True,
                              env=CLEAN | {"TUTTI_LANE_BYTES": "64K"}, timeout=60)
        lines = {line.split()[0]: line.split()[1:4] for line in done.stdout.splitlines() if line.strip()}
        self.assertEqual(lines["lane_bytes"], ["64K", "1M", "environment"])
        self.assertEqual(lines["max_lanes"], ["2", "4", "flag"])
        self.assertEqual(lines["timeout"], ["300", "300", "default"])

    def test_routes(self):
        text = tutti("info", "-np", "3").stdout
        self.assertEqual([line.split()[1] for line in text.splitlines() if line.startswith("rank")], ["0", "1", "2"])
        self.assertEqual(text.count("self"), 3)
        self.assertEqual(text.count("shm"), 6)
        self.assertEqual(tutti("info", "-np", "2", "--transport", "tcp").stdout.count("tcp"), 2)


if __name__ == "__main__":
    unittest.main()
