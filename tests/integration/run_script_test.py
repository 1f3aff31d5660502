"""tests/run: what it says of the CUDA module, when that is a failure, and which parts have no time in CI. Builds and tests nothing: CMake, ctest, pip and nvcc
are lines of shell in a copy of the tree's outline."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN = pathlib.Path(__file__).resolve().parent.parent / "run"
MODULE = "build/dev/lib/tutti/libtutti_cuda.so"
PROGRAMS = {
    # A Python that is named has to be there.
    "cmake": 'for word; do case "$word" in *_PYTHON=*) [ -x "${word#*=}" ] || exit 1 ;; esac; done; echo "-- cuda            $CUDA_STATE"',
    "ctest": 'echo "100% tests passed, 0 tests failed out of 3"',
    "python3": 'mkdir -p "$3/bin"; for name in pip python; do ln -sf "${0%/*}/nvcc" "$3/bin/$name"; done',  # -m venv FOLDER
    "nvcc": "true",
    "comm": "true",  # what others leave in /dev/shm meanwhile
}


class RunScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "tests").mkdir()
        shutil.copy(RUN, self.folder / "tests" / "run")
        for name, text in PROGRAMS.items():
            self.program(f"bin/{name}", text)
        self.program("third_party/install", "true")
        for script in ("tests/bare", "tests/python/wheel"):
            self.program(script, "exit 77")

    def program(self, name, text):
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

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
            self.assertRegex(done.stdout, r"(?m)^bare +skipped ")
        return [line for line in done.stdout.splitlines() if line.startswith("CUDA: ")], int(failed[1]) if failed else 0

    def test_arguments(self):
        for words in (["--fast"], ["--quick", "--full"]):
            done = subprocess.run([self.folder / "tests" / "run", *words], capture_output=True, text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)

    def test_the_short_loop(self):
        environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CUDA_STATE": "off    no"}
        done = subprocess.run([self.folder / "tests" / "run", "--quick"], capture_output=True, text=True, timeout=100, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^quick-test +ok ")
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
        late = self.full_output("on     nvcc", "--full", CI="1", SECONDS="2300")
        self.assertEqual(late.returncode, 0, late.stdout)
        self.assertRegex(late.stdout, r"(?m)^dev-test +ok ")
        for part in ("bare", "asan-build", "tsan-build", "python-wheel", "pip-mpich-test"):
            self.assertRegex(late.stdout, rf"(?m)^{part} +not run: no time left$")
        self.assertEqual(self.full_output("on     nvcc", "--full", SECONDS="2300").stdout.count("no time left"), 0)  # outside CI

    def test_what_is_cut_off_in_ci(self):
        """By timeout's exit status. A test that failed before stays a failure."""
        self.compiled()
        self.program("tests/bare", "exit 124")
        done = self.full_output("on     nvcc", "--full", CI="1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^bare +cut off ")
        self.program("tests/bare", "echo '1/2 Test #1: unit.a ....***Failed 1.00 sec'; exit 124")
        done = self.full_output("on     nvcc", "--full", CI="1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^bare +time-out ")
        self.program("tests/bare", "exit 77")
        self.program("third_party/install", "exit 124")  # not optional
        self.assertEqual(self.full_output("on     nvcc", "--full", CI="1").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
