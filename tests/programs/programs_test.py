"""Programs that people have, as Debian packages them: each plain and under the preload, with the same results.

    programs_test.py LIBRARY_FOLDER --ex19 PATH [unittest's arguments]

LIBRARY_FOLDER has the preloads. PATH is PETSc's ex19, compiled for Debian's PETSc. `tests/programs/run` installs the packages and
compiles it. Each program has to say itself that its results are right, on 2 and on 4 ranks, and to say the same both times; and
the preload has to have taken calls of every function that is named, on every rank.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import inputs  # noqa: E402
import mpi_programs  # noqa: E402

RANKS = (2, 4)
SCALAPACK = pathlib.Path("/usr/lib/x86_64-linux-gnu/scalapack")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")
SOLUTION = re.compile(rf"Solution is((?:{NUMBER.pattern}|[\s(),])*)")

options = None


def run(family, ranks, words, *, preload, files=None, standard_input=""):
    """What the program printed, the texts of the files that it left behind, and what the preload said."""
    launcher = next(filter(shutil.which, mpi_programs.LAUNCHERS[family]), None)
    if not launcher:
        raise AssertionError(f"no mpiexec of {family} here")
    variables = {"TUTTI_TUNING": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if preload:
        variables |= {"TUTTI_LOG": "info", "LD_PRELOAD": os.path.join(options.libraries, f"libtutti_mpi_preload-{family}.so")}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (files or {}).items():
            pathlib.Path(folder, name).write_text(text)
        done = subprocess.run([launcher, "-n", str(ranks), *words], cwd=folder, input=standard_input, capture_output=True, text=True,
                              timeout=300, env=mpi_programs.environment(family, **variables))
        if done.returncode != 0:
            raise AssertionError(f"{words[0]}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        left = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir() if file.name not in (files or {})}
    return done.stdout, left, done.stderr


def taken(said):
    """The calls over tutti by function, of each rank."""
    return {int(rank): {name: int(count) for name, count in re.findall(r"(\w+) (\d+)", calls)}
            for rank, calls in re.findall(r"\[rank (\d+)\] info: calls of MPI over tutti: ([^;\n]*)", said)}


def values(text):
    return [float(number.lower().replace("d", "e")) for number in NUMBER.findall(text)]


class Programs(unittest.TestCase):
    def both(self, family, ranks, functions, words, **how):
        """(output, files) of a plain run and of one under the preload, which has taken calls of these functions on all ranks."""
        plain, plain_files, nothing = run(family, ranks, words, preload=False, **how)
        self.assertEqual(taken(nothing), {})
        preloaded, files, said = run(family, ranks, words, preload=True, **how)
        counts = taken(said)
        self.assertEqual(sorted(counts), list(range(ranks)), said[-2000:])
        for rank in counts:
            self.assertLessEqual(set(functions.split()), set(counts[rank]), f"rank {rank} took only {counts[rank]}")
        print(f"{words[0].rsplit('/', 1)[-1]} of {family}, {ranks} ranks: {sum(counts[0].values())} calls of rank 0 over tutti")
        return (plain, plain_files), (preloaded, files)

    def assert_close(self, found, expected, relative, absolute=0.0):
        """Two texts that differ in nothing but the last digits of their numbers."""
        self.assertEqual(NUMBER.sub("#", found).split(), NUMBER.sub("#", expected).split())
        for at, (one, other) in enumerate(zip(values(found), values(expected))):
            if not abs(one - other) <= absolute + relative * abs(other):
                self.fail(f"number {at + 1} of {len(values(expected))} is {one!r} and not {other!r}")

    def test_lammps(self):
        """A melt of Lennard-Jones atoms under a thermostat: thermodynamics, an averaged pair distribution, the last positions."""
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                plain, preloaded = self.both("openmpi", ranks, "Allreduce Bcast Barrier", ["lmp", "-in", "melt", "-log", "none"],
                                             files={"melt": inputs.MELT})
                tables = [re.search(r"(?ms)^ *Step .*?(?=^Loop time)", output)[0] for output, files in (plain, preloaded)]
                self.assertEqual(tables[0].count("\n"), 12)
                self.assert_close(tables[1], tables[0], 1e-10)
                self.assertEqual(sorted(plain[1]), ["distances", "positions"])
                for name, lines in (("distances", 20), ("positions", 500)):
                    self.assertGreater(plain[1][name].count("\n"), lines)
                    self.assert_close(preloaded[1][name], plain[1][name], 1e-9, 1e-9)

    def scalapack(self, program, functions, line):
        """`line` finds in a line of results the verdict and what was tried, which are no times and no residuals."""
        for family in mpi_programs.LAUNCHERS:
            for ranks in RANKS:
                with self.subTest(family=family, ranks=ranks):
                    files = inputs.scalapack(ranks, few=family == "mpich" and ranks > 2)  # MPICH's ranks spin while they wait
                    both = self.both(family, ranks, functions, [str(SCALAPACK / f"{family}-tests" / program)], files=files)
                    plain, preloaded = ([(found["verdict"], *found["tried"].split()) for found in re.finditer(line, output, re.M)]
                                        for output, files in both)
                    self.assertGreater(len(plain), 0)
                    self.assertEqual(preloaded, plain)
                    self.assertLessEqual({verdict.upper() for verdict, *tried in plain}, {"PASSED", "BYPASS"})
                    self.assertGreater(sum(verdict.upper() == "PASSED" for verdict, *tried in plain), len(plain) / 2)

    def test_scalapack_lu(self):
        self.scalapack("xdlu", "Allreduce Bcast Reduce", r"^WALL(?P<tried>(?: +\d+){7}) +\S+ +\S+ +\S+ +(?P<verdict>\w+)")

    def test_scalapack_qr(self):
        """TZ wants no more rows than columns, and says BYPASS of the others."""
        self.scalapack("xdqr", "Allreduce Bcast Reduce", r"^WALL(?P<tried>(?: +\d+){6}) +\S+ +\S+ +(?P<verdict>\w+)")

    def test_scalapack_svd(self):
        self.scalapack("xdsvd", "Bcast Barrier", r"^(?P<verdict>[A-Z]\w+) *-?\d\.\d+E[-+]\d\d *-?\d\.\d+E[-+]\d\d(?P<tried>(?: +\d+){6}) ")

    def test_scalapack_sep(self):
        self.scalapack("xdsep", "Allreduce Bcast", r"^(?P<tried>(?: +\d+){5} +[NY]) +\S+ +\S+ +\S+ +\S+ +(?P<verdict>\w+) +EV")

    def test_hpcc(self):
        """Linpack, matrix transposition, random access, FFT and the others: no errors, equal norms."""
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                both = self.both("openmpi", ranks, "Allreduce Bcast Reduce Alltoall Barrier", ["hpcc"], files=inputs.hpcc(ranks))
                reports = [files["hpccoutf.txt"] for output, files in both]
                for report in reports:
                    self.assertNotRegex(report, r"FAILED|failed\)|Did not|[1-9]\d* errors|with error [1-9]|[1-9]\d* tests completed and failed")
                verdicts = [inputs.verdicts(report) for report in reports]
                self.assertGreater(len(verdicts[0]), 20)
                self.assertEqual(verdicts[1], verdicts[0])
                plain, preloaded = (dict(re.findall(r"^(\w+)=(\S+)$", report, re.M)) for report in reports)
                for name, value in inputs.HPCC_EXACT.items():
                    self.assertEqual((name, preloaded[name]), (name, value))
                    self.assertEqual((name, plain[name]), (name, value))
                for name in inputs.HPCC_EQUAL:
                    self.assert_close(preloaded[name], plain[name], 1e-4)  # six digits are printed
                for numbers in (plain, preloaded):
                    self.assertLess(float(numbers["MPIFFT_maxErr"]), 1e-13)
                    self.assertLess(float(numbers["HPL_RnormI"]), 1e-10)

    def mumps(self, program, word, tolerance):
        """The solver is Fortran, so what the preload takes are Fortran's calls."""
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                both = self.both("openmpi", ranks, "Allreduce Bcast Reduce", [f"/usr/lib/mumps/{program}"],
                                 standard_input=inputs.laplacian(14, word))
                for output, files in both:
                    solution = values(SOLUTION.search(output)[1])
                    if program[0] in "cz":  # pairs of a real and an imaginary part
                        self.assertLess(max(map(abs, solution[1::2])), tolerance)
                        solution = solution[::2]
                    self.assertEqual(len(solution), 14 * 14)
                    self.assertLess(max(abs(found - (i + 1)) for i, found in enumerate(solution)), tolerance)

    def test_mumps_of_doubles(self):
        self.mumps("dsimpletest", repr, 1e-8)

    def test_mumps_of_floats(self):
        self.mumps("ssimpletest", repr, 1e-1)

    def test_mumps_of_complex_numbers(self):
        self.mumps("zsimpletest", "({!r},0.0)".format, 1e-8)

    def test_petsc(self):
        """ex19, a driven cavity: every norm of Newton's method, and the solution."""
        words = [options.ex19, *"-da_grid_x 12 -da_grid_y 12 -lidvelocity 100 -grashof 1e2 -ksp_rtol 1e-10 -snes_monitor".split(),
                 "-snes_view_solution", "ascii:solution"]
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                plain, preloaded = self.both("openmpi", ranks, "Allreduce Bcast", words)
                self.assertRegex(plain[0], r"Number of SNES iterations = [2-9]\n")
                self.assert_close(preloaded[0], plain[0], 1e-6, 1e-9)
                self.assertGreaterEqual(len(values(plain[1]["solution"])), 4 * 12 * 12)
                self.assert_close(preloaded[1]["solution"], plain[1]["solution"], 1e-8, 1e-8)


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries")
    parser.add_argument("--ex19", required=True)
    options, rest = parser.parse_known_args()
    options.libraries, options.ex19 = os.path.abspath(options.libraries), os.path.abspath(options.ex19)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
