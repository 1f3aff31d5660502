"""tests/run: what it says of the CUDA module, when that is a failure, and which parts have their turn and their time in CI. Builds and
tests nothing: CMake, ctest, pip and nvcc are lines of shell in a copy of the tree's outline."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent.parent / "run"
OTHERS = ("wheel", "torch213", "pip-mpi", "programs", "families", "bare", "aarch64", "site")
MODULE = "build/dev/lib/tutti/libtutti_cuda.so"
PROGRAMS = {
    # A Python that is named has to be there.
    "cmake": 'for word; do case "$word" in *_PYTHON=*) [ -x "${word#*=}" ] || exit 1 ;; esac; done; echo "-- cuda            $CUDA_STATE"',
    "ctest": 'echo "100% tests passed, 0 tests failed out of 3"',
    "python3": 'mkdir -p "$3/bin"; for name in pip python; do ln -sf "${0%/*}/nvcc" "$3/bin/$name"; done',  # -m venv FOLDER
    "nvcc": "true",
    "doxygen": "true",
    "comm": "true",  # what others leave in /dev/shm meanwhile
    "sleep": "true",  # nothing was started whose end is to be waited for
}


class RunScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tests").mkdir()
        shutil.copy(RUN, self.folder / "tests" / "run")
        self.landing("7")
        for name, text in PROGRAMS.items():
            self.program(f"bin/{name}", text)
        self.program("third_party/install", "true")
        for script in ("tests/bare", "tools/site", "tests/programs/run", "tests/python/wheel", "tests/torch/families/run"):
            self.program(script, "exit 77")

    def program(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def landing(self, number):
        (self.folder / "tests" / "landing").write_text(f"{number}\n")

    def full_output(self, state, *words, **more):
        environment = {name: value for name, value in os.environ.items() if name not in ("CI", "SECONDS")}
        environment |= {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CUDA_STATE": state, "CUDACXX": f"{self.folder}/bin/nvcc"} | more
        return subprocess.run([self.folder / "tests" / "run", *words], capture_output=True, text=True, timeout=100, env=environment)

    def run_with(self, state, *words):
        done = self.full_output(state, *words)
        self.assertIn("passed, 0 failed", done.stdout.splitlines()[-1], done.stderr)
        self.assertNotIn("error", done.stderr)
        failed = re.search(r"^(\d+) part\(s\) failed", done.stdout, re.M)
        if "--full" in words:
            self.assertRegex(done.stdout, r"(?m)^bare +0 +skipped ")
        return [line for line in done.stdout.splitlines() if line.startswith("CUDA: ")], int(failed[1]) if failed else 0

    def test_arguments(self):
        for words in (["--fast"], ["--quick", "--full"], ["--part"], ["--part", "dve"], ["--part", ",dev"], ["--part", "dev", "asan"]):
            done = subprocess.run([self.folder / "tests" / "run", *words], capture_output=True, text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)

    def test_the_parts(self):
        """Those that are named run, in their order, and dev is built for those that try its modules. CI leaves none out."""
        done = subprocess.run([self.folder / "tests" / "run", "--parts"], capture_output=True, text=True, timeout=20)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["dev", "asan", "tsan", *OTHERS]), done.stderr)
        self.compiled()
        for words, rows in (("bare,tsan", ["packages", "pip-torch", "tsan-build", "tsan-test", "bare"]),
                            ("programs", ["packages", "dev-build", "programs"]),
                            ("programs,dev", ["packages", "pip-torch", "dev-build", "dev-test", "programs"])):
            done = self.full_output("on     nvcc", "--part", words, CI="1", SECONDS="9000")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(re.findall(r"(?m)^(\S+) +0  (?:ok|skipped) ", done.stdout), rows, done.stdout)
            self.assertEqual("CUDA: " in done.stdout, "dev" in words)

    def test_the_short_loop(self):
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CUDA_STATE": "off    no"}
        done = subprocess.run([self.folder / "tests" / "run", "--quick"], capture_output=True, text=True, timeout=100, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^quick-test +0 +ok ")
        self.assertNotIn("CUDA:", done.stdout)

    def test_compiled(self):
        self.compiled()
        for words in ((), ("--full",)):
            self.assertEqual(self.run_with("on     nvcc 13.0.88, for sm_80, sm_90", *words),
                             ([f"CUDA: {MODULE} is compiled by nvcc 13.0.88, for sm_80, sm_90"], 0))

    def test_not_compiled(self):
        """Which is said, and with --full is a failure, as there is an nvcc."""
        for state, why in (("off    nvcc does not work", "nvcc does not work"), ("on     nvcc 13.0.88, for sm_90", "its build failed")):
            said = f"CUDA: NOT COMPILED, its code is not even looked at: {why}"
            self.assertEqual(self.run_with(state), ([said], 0))
            self.assertEqual(self.run_with(state, "--full"), ([said, f"CUDA: failed, as {self.folder}/bin/nvcc is here"], 1))

    def compiled(self):
        (self.folder / MODULE).parent.mkdir(parents=True)
        (self.folder / MODULE).touch()

    def test_the_time_in_ci(self):
        """bash begins to count SECONDS at what the environment says."""
        self.compiled()
        early = self.full_output("on     nvcc", "--full", CI="1", SECONDS="100")
        self.assertEqual((early.returncode, early.stdout.count("no time left")), (0, 0), early.stdout)
        late = self.full_output("on     nvcc", "--full", CI="1", SECONDS="3700")
        self.assertEqual(late.returncode, 0, late.stdout)
        for part in ("dev-test", "tsan-build", "tsan-test"):  # the sanitizer whose turn it is has its time
            self.assertRegex(late.stdout, rf"(?m)^{part} +0 +ok ")
        for part in OTHERS:
            self.assertRegex(late.stdout, rf"(?m)^{part} +\d +not run: no time left$")
        self.assertEqual(self.full_output("on     nvcc", "--full", SECONDS="3700").stdout.count("not run"), 0)  # outside CI

    def test_the_end_in_ci(self):
        """No part goes on for longer than until everything has to be over, whatever its own limit."""
        self.compiled()
        self.program("bin/ctest", "exec /bin/sleep 60")
        done = self.full_output("on     nvcc", "--full", CI="1", SECONDS="4698")
        self.assertRegex(done.stdout, r"(?m)^dev-test +0 +time-out +[1-9] s$")
        self.assertRegex(done.stdout, r"(?m)^tsan-test +2 +cut off +[1-9] s$")
        self.assertIn("\nsanitizers that came to their end: none", done.stdout)

    def test_the_turns_in_ci(self):
        """One sanitizer in each landing, each of the others first in every eighth, and their ages, as if that one alone had the time."""
        self.compiled()
        run = {name: number for number, name in enumerate(OTHERS)}  # by landing, before the first one here
        for landing in range(8, 17):
            self.landing(landing)
            done = self.full_output("on     nvcc", "--full", CI="1", SECONDS="3700").stdout
            turn, other = ("tsan", "asan") if landing % 2 else ("asan", "tsan")
            self.assertRegex(done, rf"(?m)^{turn}-test +0 +ok ")
            self.assertRegex(done, rf"(?m)^{other} +1  not run: it is {turn}'s turn$")
            self.assertIn(f"\nsanitizers that came to their end: {turn}\n", done)
            ages = re.findall(r"(?m)^(\S+) +(\d+)  not run: no time left$", done)
            self.assertEqual(ages, sorted(((name, str(landing - before)) for name, before in run.items()), key=lambda entry: -int(entry[1])))
            self.assertLessEqual(int(ages[0][1]), 8)
            run[ages[0][0]] = landing

    def test_the_number_of_the_landing(self):
        for text in ("", "07", "seven"):
            self.landing(text)
            done = self.full_output("on     nvcc", "--full")
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.landing("7")
        for words in (["init", "-q"], ["add", "tests/landing"], ["commit", "-qm", "One"]):
            self.git(*words)
        self.assertNotIn("landing: ", self.full_output("on     nvcc").stdout)
        self.git("commit", "-qm", "Two", "--allow-empty")
        self.assertIn("\nlanding: tests/landing still says 7: a landing's last commit increases it (echo 8 >tests/landing)\n",
                      self.full_output("on     nvcc").stdout)
        self.landing("8")
        self.assertNotIn("landing: ", self.full_output("on     nvcc").stdout)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words], cwd=self.folder, check=True)

    def test_names_that_collide_in_ci(self):
        """Sources that do not compile together are compiled alone; a build that fails then, too, is a failure."""
        self.compiled()
        log = self.folder / "configured"
        error = "b.cpp:1:1: error: redefinition"
        self.program("bin/cmake", f'echo "$@" >>{log}; [ "$1" = --preset ] || ! tail -2 {log} | grep -q UNITY=ON || {{ echo "{error}"; exit 1; }}')
        done = self.full_output("on     nvcc", CI="1")
        self.assertRegex(done.stdout, r"(?m)^dev-build +0 +ok ")
        self.assertIn(f"\nTUTTI_UNITY: names of several sources collide, in dev-build.log: {error}\n", done.stdout)
        self.assertEqual([line.split()[:3] for line in log.read_text().splitlines()],
                         [["--preset", "dev", "-DTUTTI_UNITY=ON"], ["--build", "--preset", "dev"],
                          ["--preset", "dev", "-DTUTTI_UNITY=OFF"], ["--build", "--preset", "dev"]])
        self.program("bin/cmake", 'case "$1" in --build) exit 1 ;; esac')
        self.assertRegex(self.full_output("on     nvcc", CI="1").stdout, r"(?m)^dev-build +0 +failed \(1\) ")

    def test_what_is_cut_off_in_ci(self):
        """By timeout's exit status. A test that failed before stays a failure."""
        self.compiled()
        self.program("tests/bare", "exit 124")
        done = self.full_output("on     nvcc", "--full", CI="1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^bare +\d +cut off ")
        self.program("tests/bare", "echo '1/2 Test #1: unit.a ....***Failed 1.00 sec'; exit 124")
        done = self.full_output("on     nvcc", "--full", CI="1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^bare +0 +time-out ")
        self.program("tests/bare", "exit 77")
        self.program("third_party/install", "exit 124")  # not optional
        self.assertEqual(self.full_output("on     nvcc", "--full", CI="1").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
