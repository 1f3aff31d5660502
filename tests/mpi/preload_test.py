"""MPI programs under the preload: every taken call beside MPI's own, the scenes of behaviour.cpp, and what is exported.

    preload_test.py TESTS_FOLDER LIBRARY_FOLDER FAMILY [--tutti PATH] [--mpiexec PATH]

FAMILY is openmpi or mpich. Exits with 77 where there is no mpiexec of that family.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import mpi_programs  # noqa: E402

COLLECTIVES = ("Allreduce Bcast Reduce Allgather Allgatherv Reduce_scatter Reduce_scatter_block Alltoall Alltoallv Gather Gatherv "
               "Scatter Scatterv Barrier").split()
OTHER_NAMES = ("Init Init_thread Finalize Wait Waitall Waitany Waitsome Test Testall Testany Testsome Request_free "
               "Request_get_status").split()
# What tests/mpi/fortran.f90 calls, in a program of the module mpi and in one of mpi_f08.
FORTRAN = {**{n: 1 for n in COLLECTIVES}, "Allreduce": 2, "Allgather": 2}
FORTRAN.update({"I" + n.lower(): FORTRAN[n] for n in COLLECTIVES})
FORTRAN["Iallreduce"] += 2 * 8  # two for each way to end requests
SCENES = "large-send waiting new requests cancel threads freed errors others bottom".split()

options = None


def environment(**extra):
    return mpi_programs.environment(options.family, **{"TUTTI_TUNING": "off", **extra})


def library(name):
    return os.path.join(options.libraries, f"libtutti_mpi_{name}-{options.family}.so")


def run(ranks, program, *words, preload=True, **variables):
    words = [options.mpiexec, "-n", str(ranks), os.path.join(options.tests, f"{program}_{options.family}"), *words]
    if preload:
        variables = {"LD_PRELOAD": library("preload"), "TUTTI_LOG": "info", **variables}
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment(**variables))


def counted(text, what):
    """The calls of rank 0 that were taken, or left to MPI, by function."""
    found = re.search(rf"\[rank 0\].*{what}: ([^;\n]*)", text)
    return {} if not found or found[1] == "none" else {n: int(k) for n, k in re.findall(r"(\w+) (\d+)", found[1])}


class Preload(unittest.TestCase):
    def assert_ok(self, done):
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-2000:])
        self.assertRegex(done.stdout, "(?m)^ok$")

    def cases(self, ranks, *words, **variables):
        done = run(ranks, "cases", *words, **variables)
        self.assert_ok(done)
        expected = {n: int(k) for n, k in re.findall(r"(?m)^(I?\w+) (\d+)$", done.stdout)}
        self.assertGreaterEqual(len(expected), 14)
        return expected, done.stderr

    def test_every_call_beside_mpi_and_how_many_were_taken(self):
        expected, said = self.cases(3 if options.family == "openmpi" else 2, "brief" if options.family == "mpich" else "all")
        self.assertEqual(counted(said, "over tutti"), expected)
        self.assertEqual(set(counted(said, "left to MPI")), {"Allreduce", "Reduce", "Reduce_scatter", "Reduce_scatter_block"})

    def test_the_same_with_requests(self):
        expected, said = self.cases(2, "requests", "brief")
        self.assertEqual(counted(said, "over tutti"), expected)

    def test_what_the_check_mode_compares(self):
        for words in ([], ["requests"]):
            expected, said = self.cases(2, "brief", *words, TUTTI_MPI_CHECK="1")
            self.assertEqual(counted(said, "over tutti"), expected)
            self.assertNotIn("ends the job", said)

    def test_a_difference_ends_the_job(self):
        self.assert_ok(run(2, "behaviour", "differing"))
        done = run(2, "behaviour", "differing", TUTTI_MPI_CHECK="1")
        if "alike" in done.stdout:
            self.skipTest("this MPI computes what tutti does")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "Allreduce, element 0: tutti has (-56 and MPI 127|200 and MPI 100); TUTTI_MPI_CHECK ends the job")

    def test_small_calls_stay_with_mpi(self):
        done = run(2, "behaviour", "others", TUTTI_MPI_MIN_BYTES="64K")
        self.assert_ok(done)
        self.assertEqual(counted(done.stderr, "over tutti"), {})
        self.assert_ok(run(2, "behaviour", "errors", TUTTI_MPI_MIN_BYTES="64K"))

    def test_scenes(self):
        self.assert_ok(run(3, "behaviour", *SCENES))
        self.assert_ok(run(1, "behaviour", "requests", "errors", "new"))

    def test_arguments_that_an_mpi_may_not_look_at(self):
        for ranks in (2, 3):
            self.assert_ok(run(ranks, "behaviour", "in-place", "refused", "refused-by-mpi", "refused-by-tutti", "refused-twice",
                               "refused-of-every-kind", "refused-for-memory"))

    def test_fortran(self):
        for program in ("fortran", "fortran08"):
            if not os.path.exists(os.path.join(options.tests, f"{program}_{options.family}")):
                self.skipTest("no compiler of Fortran here")
            for ranks in (2, 3):
                done = run(ranks, program)
                self.assert_ok(done)
                self.assertEqual(counted(done.stderr, "over tutti"), FORTRAN)
                self.assertEqual(counted(done.stderr, "left to MPI"), {})

    def test_a_request_of_c_ended_by_fortran(self):
        if not os.path.exists(os.path.join(options.tests, f"languages_{options.family}")):
            self.skipTest("no compiler of Fortran here")
        done = run(2, "languages")
        self.assert_ok(done)
        self.assertEqual(counted(done.stderr, "over tutti"), {"Allreduce": 1, "Iallreduce": 1})

    def test_ranks_that_do_not_call_the_same(self):
        done = run(2, "behaviour", "mismatch")
        self.assertIn("ok\n", done.stdout, done.stderr)

    def test_what_leads_back_to_mpi(self):
        done = run(2, "behaviour", "new", TUTTI_TRANSPORT="mpi")
        self.assert_ok(done)
        self.assertIn("collectives stay with MPI: the setting 'mpi'", done.stderr)

    def test_without_the_part_that_does_the_work(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(library("preload"), folder)
            done = run(2, "behaviour", "new", LD_PRELOAD=alone)
            self.assert_ok(done)
            self.assertRegex(done.stderr, "stay with MPI, since a part of tutti cannot be opened: .*: cannot open shared object")

    def test_the_preload_of_the_other_family(self):
        other = "mpich" if options.family == "openmpi" else "openmpi"
        file = os.path.join(options.libraries, f"libtutti_mpi_preload-{other}.so")
        if not os.path.exists(file):
            self.skipTest("the other one was not built")
        done = run(2, "behaviour", "nothing", LD_PRELOAD=file)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"preload libtutti_mpi_preload-{options.family}.so, not the one of the other family", done.stderr)

    def test_the_standard_interface_of_mpi(self):
        if not shutil.which("cc"):
            self.skipTest("no C compiler here")
        with tempfile.TemporaryDirectory() as folder:
            # As much of such an MPI as a program needs before the preload looks at it.
            for name, text in (("mpi", "int MPI_Init(void* a, void* b) { return 0; }"),
                               ("main", "int MPI_Init(void*, void*); int main(void) { return MPI_Init(0, 0); }")):
                with open(f"{folder}/{name}.c", "w") as file:
                    file.write(text)
            for words in ("-shared -fPIC -Wl,-soname,libmpi_abi.so.0 mpi.c -o libmpi_abi.so.0", "main.c -o main libmpi_abi.so.0"):
                subprocess.run(["cc", *words.split()], cwd=folder, check=True)
            plain = {"LD_LIBRARY_PATH": folder}
            done = [subprocess.run([f"{folder}/main"], capture_output=True, text=True, timeout=60, env=environment(**more, **plain))
                    for more in ({}, {"LD_PRELOAD": library("preload")})]
        self.assertEqual([one.returncode for one in done], [0, 1])
        self.assertIn("MPI's standard interface (libmpi_abi.so), for which there is no preload", done[1].stderr)

    def test_exports(self):
        names = subprocess.run(["nm", "-D", library("preload")], capture_output=True, text=True, check=True).stdout.splitlines()
        defined = {line.split()[-1] for line in names if " U " not in line and " w " not in line}
        both = COLLECTIVES + ["I" + n.lower() for n in COLLECTIVES]
        wanted = {"MPI_" + n for n in both + OTHER_NAMES}
        large = {n + "_c" for n in wanted if n.replace("MPI_I", "MPI_").lower()[4:] in [c.lower() for c in COLLECTIVES[:-1]]}
        without_buffers = {f"mpi_{n}_f08_".lower() for n in ["Barrier", "Ibarrier"] + OTHER_NAMES}
        fortran = {form.format(n.lower()) for n in both + OTHER_NAMES for form in ("mpi_{}_", "mpi_{}_f08_")}
        self.assertIn(defined, (wanted | without_buffers, wanted | large | without_buffers) if options.family == "mpich"
                      else (wanted | fortran,))
        for file in (library("preload"), library("calls")):
            names = subprocess.run(["nm", "-D", "--undefined-only", file], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(names, r"P?MPI_|ompi_")
        needed = subprocess.run(["readelf", "-d", library("preload")], capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"NEEDED.*\[(.*?)\.so", needed), ["libc"])

    def test_a_program_without_mpi_opens_nothing(self):
        done = subprocess.run(["cat", "/proc/self/maps"], capture_output=True, text=True, check=True,
                              env=environment(LD_PRELOAD=library("preload")))
        self.assertIn("libtutti_mpi_preload", done.stdout)
        self.assertNotRegex(done.stdout, "libtutti_mpi_calls|libtutti.so|libstdc|libmpi")

    def test_the_example_by_tutti_run(self):
        if not options.tutti:
            self.skipTest("no tutti command here")
        words = [options.tutti, "run", "--preload-mpi", "--mpiexec", options.mpiexec, "-np", "3", "--log", "info",
                 os.path.join(options.tests, f"average_{options.family}")]
        plain = {k: v for k, v in environment().items() if not k.startswith(("OMPI_", "PRTE_"))}
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=plain)
        self.assertEqual((done.returncode, done.stdout), (0, "the average of 3 ranks is 1\n"), done.stderr)
        self.assertEqual(counted(done.stderr, "over tutti"), {"Allreduce": 1})


class Hangs(unittest.TestCase):
    """Programs that wait for ever: the preload's calls have no deadline, and `tutti doctor` says what they wait for."""

    def finding(self, scene, wanted, culprits=(1,), **variables):
        """What the doctor says of the processes that mpiexec has started, as soon as it is of the wanted kind."""
        if not options.tutti:
            self.skipTest("no tutti command here")
        words = [options.mpiexec, "-n", "3", os.path.join(options.tests, f"hangs_{options.family}"), scene, "60"]
        started = subprocess.Popen(words, env=environment(LD_PRELOAD=library("preload"), **variables), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end, started)
        found, until = {}, time.monotonic() + 50
        while found.get("finding") != wanted and time.monotonic() < until:
            time.sleep(0.2)
            done = subprocess.run([options.tutti, "doctor", str(started.pid), "--json"], capture_output=True, text=True, timeout=60)
            found = json.loads(done.stdout)[0] if done.stdout else {}
        self.assertEqual((found.get("finding"), found.get("culprits")), (wanted, list(culprits)), found)
        return found["text"]

    @staticmethod
    def end(started):
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()

    def test_a_rank_that_skips_an_allreduce(self):
        text = self.finding("skips", "late")
        self.assertRegex(text, r"Rank 1 has not entered MPI_Allreduce, call \d+ of halo \(allreduce\(sum, f64, count 100\)")
        self.assertRegex(text, r"ranks 0, 2 have waited for it.*loses_its_way.*its last call was MPI_Allreduce")

    def test_a_rank_that_makes_another_call(self):
        # Without these settings the call fails at once, and its error names both calls.
        text = self.finding("other", "mismatch", TUTTI_VERIFY="off", TUTTI_TRANSPORT="tcp")
        self.assertRegex(text, r"The ranks do not agree on call \d+ of halo: ranks 0, 2 made MPI_Allreduce.*rank 1 made MPI_Bcast")

    def test_ranks_in_a_call_that_the_preload_does_not_take(self):
        text = self.finding("sends", "outside", culprits=())
        self.assertRegex(text, r"The ranks are in no call that tutti knows of\. .*was MPI_Allreduce")
        self.assertRegex(text, r"MPI_Ssend in libmpi.*called from main.* in hangs_|called from main.* in hangs_.* through MPI_Ssend")


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("tests")
    parser.add_argument("libraries")
    parser.add_argument("family", choices=mpi_programs.LAUNCHERS)
    parser.add_argument("--mpiexec")
    parser.add_argument("--tutti", help="the tutti command")
    options, rest = parser.parse_known_args()
    if not options.mpiexec:
        options.mpiexec = next(filter(shutil.which, mpi_programs.LAUNCHERS[options.family]), None)
    if not options.mpiexec:
        print(f"skipped: no {mpi_programs.LAUNCHERS[options.family][0]} here")
        sys.exit(77)
    options.mpiexec = shutil.which(options.mpiexec)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
