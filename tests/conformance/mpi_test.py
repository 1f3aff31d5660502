"""The conformance suite between processes that an mpiexec starts: MPI's collectives, and our plans over its messages.

    mpi_test.py TESTS_FOLDER FAMILY [--mpiexec PATH] [--library PATH] [--tutti PATH] [--thin] [--no-programs]

FAMILY is openmpi or mpich. Exits with 77 where there is no mpiexec of that family.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import mpi_programs  # noqa: E402

options = None


def environment(**extra):
    added = {}
    if options.library:
        added["TUTTI_MPI_LIBRARY"] = options.library
    # What MPI itself keeps for ever, and what it does between its own threads, is not ours to report.
    added["ASAN_OPTIONS"] = "detect_leaks=0"
    added["TSAN_OPTIONS"] = "ignore_noninstrumented_modules=1"
    if options.thin:
        added["UCX_MEM_EVENTS"] = "n"  # UCX's hooks into madvise() end an empty program under ThreadSanitizer
    return mpi_programs.environment(options.family, **{**added, **extra})


def probe(ranks, *words, program="world_probe", **variables):
    words = [options.mpiexec, "-n", str(ranks), os.path.join(options.tests, program), *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=240, env=environment(**variables))


def alone(*words, **variables):
    return subprocess.run([os.path.join(options.tests, "world_probe"), *words], capture_output=True, text=True,
                          timeout=60, env=environment(**variables))


def said_at_the_end(words, job, enough):
    """What ranks that end abnormally say: exit code and text. mpirun itself may then crash or, with Open MPI 4.1, never end:
    it is ended two seconds after `enough`, a regular expression, was said."""
    with tempfile.NamedTemporaryFile(mode="r") as said:
        with open(said.name, "w", encoding="utf-8") as out:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=job, start_new_session=True)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            if re.search(enough, pathlib.Path(said.name).read_text(encoding="utf-8")):
                end = min(end, time.monotonic() + 2)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return process.returncode, said.read()


class Mpi(unittest.TestCase):
    def assert_ok(self, done):
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")

    def test_collectives_of_mpi(self):
        for ranks in options.sizes:
            with self.subTest(ranks=ranks):
                self.assert_ok(probe(ranks, "backend", "mpi", "rest", TUTTI_BACKEND="mpi"))

    def test_plans_over_messages_of_mpi(self):
        for ranks in options.sizes:
            with self.subTest(ranks=ranks):
                self.assert_ok(probe(ranks, "cases", "algorithms", "rest", TUTTI_TRANSPORT="mpi"))

    def test_parameter_server_over_messages_of_mpi(self):
        for ranks in options.sizes[:3]:
            with self.subTest(ranks=ranks):
                self.assert_ok(probe(ranks, "servers", 3, TUTTI_TRANSPORT="mpi"))

    def test_the_contract_of_transports(self):
        for ranks in options.sizes:
            with self.subTest(ranks=ranks):
                done = probe(ranks, program="transport_conformance", TUTTI_TEST_PROVIDER="mpi")
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-1000:])

    def test_the_contract_of_backends(self):
        for ranks in options.sizes:
            with self.subTest(ranks=ranks):
                done = probe(ranks, program="backend_conformance", TUTTI_TEST_PROVIDER="mpi")
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-1000:])

    def from_mpi(self, level, **variables):
        if options.no_programs:
            self.skipTest("a program that links this MPI was not built")
        return probe(4, level, program=f"from_mpi_probe_{options.family}", **variables)

    def test_a_program_that_uses_mpi_itself(self):
        for backend in ("planned", "mpi"):
            for transport in ("shm", "mpi"):
                with self.subTest(backend=backend, transport=transport):
                    self.assert_ok(self.from_mpi("multiple", TUTTI_BACKEND=backend, TUTTI_TRANSPORT=transport))

    def test_a_program_that_allows_one_thread_only(self):
        self.assert_ok(self.from_mpi("single"))
        refused = self.from_mpi("single", TUTTI_BACKEND="mpi")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("call MPI_Init_thread() with MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE", refused.stderr)

    def test_a_benchmark_starts_its_ranks_as_the_backend_needs(self):
        if not options.tutti:
            self.skipTest("no tutti command here")
        with tempfile.TemporaryDirectory() as first:  # on the PATH
            with open(os.path.join(first, "mpirun"), "w", encoding="utf-8") as script:
                script.write(f'#!/bin/sh\nexec "{shutil.which(options.mpiexec)}" "$@"\n')
            os.chmod(script.name, 0o755)
            plain = {k: v for k, v in environment().items() if not k.startswith(("OMPI_", "PRTE_"))}
            words = [options.tutti, "bench", "allreduce", "-np", "3", "-e", "1K", "--backend", "mpi", "--explain", "on"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120,
                                  env={**plain, "PATH": first + ":" + plain["PATH"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "(?m)^# .*: mpi: rule ")
        self.assertIn("every element of every result was right", done.stdout)

    def tutti_run(self, *flags, command=("backend", "mpi", "rest")):
        if not options.tutti:
            self.skipTest("no tutti command here")
        words = [options.tutti, "run", "-np", "4", "--mpiexec", options.mpiexec, *flags,
                 os.path.join(options.tests, "world_probe"), *command]
        plain = {k: v for k, v in environment().items() if not k.startswith(("OMPI_", "PRTE_"))}
        return subprocess.run(words, capture_output=True, text=True, timeout=120, env=plain)

    def test_ranks_that_tutti_run_starts(self):
        self.assert_ok(self.tutti_run("--backend", "mpi"))
        self.assert_ok(self.tutti_run("--transport", "mpi", command=["rest"]))
        self.assertIn("--mpiexec is for --backend mpi", self.tutti_run(command=["rest"]).stderr)
        self.assert_ok(self.tutti_run("--backend", "planned, mpi", command=["rest"]))
        self.assertIn("--grace is not for ranks that an", self.tutti_run("--backend", "mpi", "--grace", "1").stderr)
        self.assertIn("mpirun --host", self.tutti_run("--backend", "mpi", "--hosts", "a:4").stderr)

    def test_both_at_once(self):
        self.assert_ok(probe(3, "backend", "mpi", "rest", TUTTI_BACKEND="mpi", TUTTI_TRANSPORT="mpi"))

    def test_broadcast_from_every_root(self):
        for ranks in (2, 17, 24) if not options.thin else (3,):
            with self.subTest(ranks=ranks):
                self.assert_ok(probe(ranks, "backend", "mpi", "roots", TUTTI_BACKEND="mpi"))

    def test_more_than_two_to_the_31_elements(self):
        if options.thin:
            self.skipTest("too slow under a sanitizer")
        done = probe(2, "backend", "mpi", "large", TUTTI_BACKEND="mpi")
        if "of memory" in done.stderr:
            self.skipTest(done.stderr.splitlines()[0])
        self.assert_ok(done)

    def made(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return sum("MPI communicator" in line for line in done.stderr.splitlines() if "[rank 0]" in line)

    def test_splits_cost_no_communicator_unless_a_rule_names_mpi(self):
        self.assertEqual(self.made(probe(4, "splits", 1000, TUTTI_LOG="debug")), 0)
        named = probe(4, "splits", 20, TUTTI_LOG="debug", TUTTI_SELECT="allreduce: 0.. ranks 3.. = mpi")
        self.assertEqual(self.made(named), 1, named.stderr)  # the world's; its halves have two ranks
        self.assertEqual(self.made(probe(4, "splits", 20, TUTTI_LOG="debug", TUTTI_BACKEND="mpi")), 21)

    def test_different_calls(self):
        done = probe(3, "mismatch", TUTTI_BACKEND="mpi", TUTTI_VERIFY="full")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("the ranks do not agree"), 3, done.stderr)

    def test_a_rank_that_does_not_come(self):
        _, said = said_at_the_end([options.mpiexec, "-n", "3", os.path.join(options.tests, "world_probe"), "absence"],
                                  environment(TUTTI_BACKEND="mpi"), "MPI keeps the buffers of")
        self.assertIn("the deadline passed", said)
        self.assertIn("rank 0", said)
        self.assertIn("MPI keeps the buffers of 1 calls", said)

    def test_a_rank_that_mpi_counts_otherwise(self):
        if options.family != "openmpi":
            self.skipTest("hydra's ranks cannot be given other numbers")
        hidden = ["-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]
        for backend, transport in (("mpi", "tcp"), ("planned", "mpi")):
            with self.subTest(backend=backend, transport=transport), tempfile.TemporaryDirectory() as folder:
                words = [options.mpiexec]
                for rank in (1, 0, 2):  # in MPI's order: the last one counts as MPI does
                    words += ["-n", "1", "/usr/bin/env", *hidden, f"TUTTI_RANK={rank}",
                              os.path.join(options.tests, "world_probe"), "rest", ":"]
                job = environment(TUTTI_SIZE="3", TUTTI_STORE=f"file://{folder}", TUTTI_BACKEND=backend,
                                  TUTTI_TRANSPORT=transport)
                wanted = "MPI says that this is rank . of 3, but the job says rank . of 3"
                code, said = said_at_the_end(words[:-1], job, wanted)
                self.assertNotEqual(code, 0)
                self.assertRegex(said, wanted)

    def test_without_mpiexec(self):
        done = alone("rest", TUTTI_BACKEND="mpi")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("not started by mpiexec: run `mpirun -n 4", done.stderr)
        # With a mark of the other family's launcher; that family's library is looked for where it is installed.
        mark = {"PMI_RANK": "0"} if options.family == "openmpi" else {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"}
        marked = alone("rest", TUTTI_BACKEND="mpi", TUTTI_MPI_LIBRARY="/nowhere/libmpi.so", **mark)
        self.assertNotIn("not started by mpiexec", marked.stderr)
        self.assertRegex(marked.stderr, "the setting mpi_library names what cannot be opened|and this is for")
        self.assert_ok(alone("rest"))

    def test_without_a_library(self):
        done = probe(2, "rest", TUTTI_BACKEND="mpi", TUTTI_MPI_LIBRARY="/nowhere/libmpi.so")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the setting mpi_library names what cannot be opened (/nowhere/libmpi.so: cannot open shared object "
                      "file", done.stderr)
        self.assertIn("or leave the setting out", done.stderr)
        self.assertNotIn("not started by mpiexec", done.stderr)
        self.assert_ok(probe(2, "rest", TUTTI_MPI_LIBRARY="/nowhere/libmpi.so"))

    def test_with_a_library_that_is_none(self):
        done = probe(2, "rest", TUTTI_BACKEND="mpi", TUTTI_MPI_LIBRARY="libc.so.6")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "libc.so.6 (is not of the family of|has no MPI_Initialized)")


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    parser.add_argument("family", choices=mpi_programs.LAUNCHERS)
    parser.add_argument("--mpiexec")
    parser.add_argument("--library")
    parser.add_argument("--tutti", help="the tutti command")
    parser.add_argument("--thin", action="store_true", help="for a sanitizer")
    parser.add_argument("--no-programs", action="store_true", help="without programs that link this MPI")
    options = parser.parse_args()
    options.sizes = (2, 3) if options.thin else (1, 2, 3, 4, 5, 8)
    if not options.mpiexec:
        options.mpiexec = next(filter(shutil.which, mpi_programs.LAUNCHERS[options.family]), None)
    if not options.mpiexec:
        print(f"skipped: no {mpi_programs.LAUNCHERS[options.family][0]} here")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]], verbosity=2)


if __name__ == "__main__":
    main()
