"""benchmarks/hosts/run: its table and what it makes of it, with and without namespaces, and that nothing stays."""

import argparse
import csv
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest

from hosts_lab import Lab, Refused

BIN = pathlib.Path(sys.argv.pop(1))
sys.argv = sys.argv[:1]
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/hosts/run"
LOADER = importlib.machinery.SourceFileLoader("hosts_run", str(SCRIPT))
hosts = importlib.util.module_from_spec(importlib.util.spec_from_loader("hosts_run", LOADER))
LOADER.exec_module(hosts)
QUICK = ["--rounds", "1", "--seconds", "0.01", "--bin", BIN]


def words_of(*words):
    return [sys.executable, "-B", str(SCRIPT), *map(str, (*words, *QUICK))]


def run(*words):
    done = subprocess.run(words_of(*words), capture_output=True, text=True, timeout=200)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return done


def table(text):
    """The cells of all lines that are no heads."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if line[0] != "collective"]


def names():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


def left_behind():
    """The namespaces of labs whose processes have ended; other tests may be running beside this one."""
    return [name for name, pid in re.findall(r"^(tutti(\d+)x\S+)", names(), re.M) if not os.path.exists(f"/proc/{pid}")]


def command_of(pid):
    """Empty if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def end_now(process):
    if process.poll() is None:
        process.terminate()
        process.communicate(timeout=60)


class Parts(unittest.TestCase):
    def rows(self, times, model_us=None, lanes=1, peers=("mpi",)):
        place = types.SimpleNamespace(hosts=8, ranks=1, name="200mbit", peers=[types.SimpleNamespace(name=name) for name in peers], settings={})
        measured = hosts.Measured(place, types.SimpleNamespace(rounds=3, writer=None))
        for name, rounds in times.items():
            for turn, us in enumerate(rounds):
                if us is not None:
                    measured.take(turn, "broadcast", 1024, name, 1024, us)
        measured.choices["broadcast", 1024] = "chain: no rule fits, the first that can"
        return hosts.row_of(measured, types.SimpleNamespace(us=lambda *_: model_us, lanes=lambda *_: lanes), "broadcast", 1024)

    def test_ratios_are_of_a_round(self):
        cells, short, off = self.rows({"chosen": [10, 20, 40], "chain": [1, 1, 1], "binomial": [20, 20, 80], "linear": [90, None, None],
                                       "mpi": [5, 30, 20]}, model_us=22, lanes=4)
        self.assertEqual(cells, ["broadcast", "1 KiB", "1 KiB", "chain, 4 lanes", "20 us (10 us..40 us)", "2.00 (1.00..2.00) binomial",
                                 "0.50 (0.50..1.50)", "22 us, 1.10"])
        self.assertEqual((short, off), ([(0.5, "mpi")], 1.1))

    def test_what_is_level_is_not_behind(self):
        _, short, off = self.rows({"chosen": [100] * 3, "binomial": [91] * 3, "mpi": [92] * 3})
        self.assertEqual((short, off), ([], None))
        _, short, _ = self.rows({"chosen": [100] * 3, "binomial": [90] * 3})
        self.assertEqual(short, [(0.9, "binomial")])

    def test_who_was_not_measured(self):
        cells, short, _ = self.rows({"chosen": [100] * 3})
        self.assertEqual((cells[5:], short), (["-", "-", "-"], []))

    def test_sizes(self):
        self.assertEqual([hosts.bytes_of(text) for text in ("8", "64K", "16M")], [8, 65536, 16 << 20])
        self.assertEqual([hosts.human(size) for size in (8, 1000, 65536, 16 << 20)], ["8 B", "1000 B", "64 KiB", "16 MiB"])
        with self.assertRaises(argparse.ArgumentTypeError):
            hosts.bytes_of("much")

    def test_a_forecast_is_the_replay_or_else_the_estimate(self):
        self.assertEqual(hosts.seconds_of({"estimate": 0.5, "replay": 0.25}), 0.25)
        self.assertEqual(hosts.seconds_of({"estimate": 0.5, "replay": None}), 0.5)


class Links(unittest.TestCase):
    def test_every_kind_of_two_hosts(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "all.csv"
            done = run("--hosts", 2, "--ranks", 2, "--link", "1gbit,1ms", "--sizes", "8,64K", "--csv", file)
            rows = table(done.stdout)
            self.assertEqual([row[0] for row in rows], [kind for kind in hosts.KINDS for _ in range(2)], done.stdout)
            self.assertTrue(all(row[5] != "-" for row in rows), done.stdout)
            self.assertIn("Measured: within ", done.stdout)
            short = int(re.search(r"More than 1.1 times behind: (\d+)", done.stdout)[1])
            self.assertEqual(done.returncode, 1 if short else 0)
            with file.open() as lines:
                written = list(csv.DictReader(lines))
            self.assertEqual({row["kind"] for row in written}, set(hosts.KINDS))
            self.assertEqual(len([row for row in written if row["by"] == "chosen"]), 12)

    def test_algorithms_by_name_and_a_network_that_is_given(self):
        given = "within 1us 10G 1us, between 1ms 1M 1us, fold 10G"
        done = run("--hosts", 2, "--ranks", 1, "--link", "1gbit,1ms", "--sizes", "64K", "--kinds", "allreduce", "--algorithms", "ring,tree",
                   "--network", given, "--tuned")
        self.assertIn(f"Measured: {given}.", done.stdout)
        self.assertRegex(table(done.stdout)[0][5], " (ring|tree)$")

    def test_wrong_words(self):
        for words in (["--kinds", "allredcue"], ["--sizes", "much"], ["--bin", "/nowhere"], ["--hosts", "2", "--peer", "x"],
                      ["--hosts", "2", "--peer", "x=y,/nowhere/mpirun"], ["--hosts", "2", "--link", "fast", "--ranks", "1"]):
            done = subprocess.run([sys.executable, "-B", SCRIPT, "--bin", BIN, *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, (words, done.stderr))


class Namespaces(unittest.TestCase):
    def setUp(self):
        try:
            with Lab(1):
                pass
        except Refused as why:
            self.skipTest(str(why))
        self.before = left_behind()

    def test_open_mpi_beside_it(self):
        peers = []
        if shutil.which("mpirun.openmpi"):
            peers = ["--peer", "mpi=mpicxx.openmpi,mpirun.openmpi"]
        done = run("--hosts", 2, "--ranks", 2, "--rate", "1gbit", "--sizes", "8,64K", "--kinds", "allreduce,alltoall", *peers)
        self.assertNotIn("cannot be measured", done.stderr)
        rows = table(done.stdout)
        self.assertEqual(len(rows), 4, done.stdout)
        if peers:
            self.assertTrue(all(re.match(r"[\d.]+ \(", row[6]) for row in rows), done.stdout)
        self.assertEqual(left_behind(), self.before)

    def test_an_interrupt_leaves_nothing(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with tempfile.TemporaryDirectory() as folder:
                process = subprocess.Popen(words_of("--hosts", 3, "--ranks", 1, "--rate", "1gbit", "--sizes", "1M,16M")
                                           + ["--rounds", "99"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           env={**os.environ, "TMPDIR": folder})
                self.addCleanup(end_now, process)
                end = time.monotonic() + 60
                while not self.ranks(process.pid) and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertTrue(self.ranks(process.pid))
                process.send_signal(number)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 2, err)
                self.assertIn("interrupted", err)
                self.assertEqual((left_behind(), os.listdir(folder)), (self.before, []))

    @staticmethod
    def ranks(pid):
        """Whether ranks run on the hosts of this process."""
        found = re.search(rf"^tutti{pid}x\d+-1\b", names(), re.M)
        return found and "hosts_points" in "".join(
            command_of(one)
            for one in subprocess.run(["ip", "netns", "pids", found[0]], capture_output=True, text=True).stdout.split())


if __name__ == "__main__":
    unittest.main()
