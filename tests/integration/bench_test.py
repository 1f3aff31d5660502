"""tutti bench and tutti info as their users run them: every collective, the formats, jobs, deaths, mistakes."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

BIN = pathlib.Path(sys.argv.pop(1))
sys.argv = sys.argv[:1]
QUICK = ["-b", "8", "-e", "2K", "-f", "16", "-n", "4", "-w", "1"]
COLLECTIVES = ["allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "gather", "scatter", "alltoall", "sendrecv"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp"}


def tutti(*words, code=0, env=CLEAN):
    done = subprocess.run([BIN / "tutti", *map(str, words)], capture_output=True, text=True, timeout=200, env=env)
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

    def test_allocated_buffers(self):
        for collective in (*COLLECTIVES, "barrier"):
            for transport in ("shm", "tcp"):
                found = rows("bench", collective, "-np", "3", *QUICK, "--memory", "allocated", "--transport", transport)
                self.assertEqual({row["ok"] for row in found}, {"yes"}, (collective, transport))
        text = tutti("bench", "allreduce", "-np", "2", *QUICK, "--memory", "allocated").stdout
        self.assertIn("; buffers: allocated\n", text)

    def test_overlap(self):
        for collective in (*COLLECTIVES[:-1], "barrier"):
            for kind in ("compute", "idle"):
                for row in rows("bench", collective, "-np", "2", *QUICK, "--overlap", kind):
                    self.assertEqual((row["op"], row["ok"]), (collective, "yes"))
                    total, call, compute = (float(row[name]) for name in ("median_us", "call_us", "compute_us"))
                    self.assertAlmostEqual(float(row["slowdown"]), total / (call + compute), delta=0.01)
                    overlap = 100 * (1 - (total - compute) / call)
                    self.assertAlmostEqual(float(row["overlap_pct"]), max(0, overlap), delta=1 + 0.2 / call)

    def test_a_late_rank(self):
        for np, transport in (("2", "shm"), ("3", "tcp")):
            found = rows("bench", "allreduce", "-np", np, *QUICK, "--late", "0.1", "--transport", transport)
            self.assertEqual([row["ok"] for row in found], ["yes"] * 3)
            for row in found:
                self.assertLess(0, float(row["median_us"]))
                self.assertLessEqual(float(row["median_us"]), float(row["all_out_us"]))
                self.assertLess(0, float(row["waiting_cpu_pct"]))
        text = tutti("bench", "broadcast", "-np", "2", *QUICK, "--late", "0.05").stdout
        self.assertIn("# the last rank comes late; time: how long it is in the call; ", text)
        found = json.loads(tutti("bench", "broadcast", "-np", "2", *QUICK, "--late", "0.05", "--format", "json").stdout)
        self.assertTrue(all(row["waiting_cpu_pct"] > 0 for row in found))

    def test_human_and_json(self):
        text = tutti("bench", "allreduce", "-np", "2", *QUICK).stdout
        for column in ("size", "count", "type", "redop", "root", "out-of-place", "in-place", "algbw", "busbw", "#wrong"):
            self.assertIn(column, text)
        self.assertIn("every element of every result was right", text)
        found = json.loads(tutti("bench", "reduce", "-np", "2", *QUICK, "--format", "json").stdout)
        self.assertEqual([row["bytes"] for row in found], [8, 128, 2048])
        self.assertEqual({row["in_place"]["wrong"] for row in found}, {0})

    def test_explained(self):
        small, large = "[\\w/]+: .*", "planned/ring: rule 'allreduce: 2048..=(planned/)?ring' .*"
        words = ["bench", "allreduce", "-np", "2", *QUICK, "--explain", "on", "--select", "allreduce: 2K..=ring"]
        done = tutti(*words)
        self.assertRegex(done.stdout, f"(?m)^# 8 to 128 bytes: {small}$")
        self.assertRegex(done.stdout, f"(?m)^# 2048 bytes: {large}$")
        done = tutti(*words, "--format", "csv")
        self.assertNotIn("#", done.stdout)
        self.assertRegex(done.stderr, f"(?m)^# 2048 bytes: {large}$")
        for collective in (*COLLECTIVES, "barrier"):
            self.assertRegex(tutti("bench", collective, "-np", "2", *QUICK, "--explain", "on").stdout, "(?m)^# .* bytes: .")
        self.assertIn("# 8 to 2048 bytes: tree: by --algorithm\n",
                      tutti("bench", "allreduce", "-np", "2", *QUICK, "--explain", "on", "--algorithm", "tree").stdout)

    def test_inside_a_job(self):
        found = list(csv.DictReader(io.StringIO(tutti("run", "-np", "3", BIN / "tutti", "bench", "allgather", *QUICK,
                                                      "--format", "csv").stdout)))
        self.assertEqual({(row["ranks"], row["ok"]) for row in found}, {("3", "yes")})
        job = tutti("run", "-np", "2", BIN / "tutti", "bench", "allgather", *QUICK, "--plot", code=2)
        self.assertIn("a comparison starts its own ranks: run it by itself", job.stderr)

    def test_mistakes_are_one_line_and_exit_code_2(self):
        for words in (["allreduce", "-b", "16", "-e", "8"], ["allreduce", "-f", "1"], ["allredcue"], ["allreduce", "--dtyp", "f32"],
                      ["allreduce", "-o", "band"], ["allreduce", "-d", "f33"], ["allreduce", "-b", "many"], [],
                      ["broadcast", "-np", "2", "--root", "2"], ["allreduce", "--format", "xml"],
                      ["allreduce", "--versus", "nobody"], ["allreduce", "--versus", "mpich:worst"], ["barrier", "--plot"],
                      ["allreduce", "--csv", "no/such/folder/x.csv"], ["allreduce", "--variants", "no/such/file"],
                      ["allreduce", "--lane-bytes", "much"], ["allreduce", "--memory", "borrowed"],
                      ["allreduce", "--overlap", "sometimes"], ["allreduce", "--overlap", "idle", "--late", "1"], ["allreduce", "--late", "-1"],
                      ["allreduce", "--device", "cuda", "--memory", "allocated"],
                      ["allreduce", "-np", "1", "--late", "1"], ["sendrecv", "--overlap", "idle"], ["allreduce", "-f", "sqrt3"]):
            done = tutti("bench", *words, code=2)
            self.assertEqual(done.stdout, "", words)
            self.assertEqual(len(done.stderr.splitlines()), 1, (words, done.stderr))

    def test_no_device_is_one_line_with_the_reason(self):
        """Also where there is one, which CUDA then does not see."""
        done = subprocess.run([BIN / "tutti", "bench", "allreduce", "-np", "1", "--device", "cuda", *QUICK], capture_output=True, text=True, timeout=60,
                              env=CLEAN | {"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Atutti bench: --device cuda: no CUDA device: \S.*\ntutti run: rank 0 .*\n\Z")

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
