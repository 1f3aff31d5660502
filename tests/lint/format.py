"""clang-format leaves every C++ file as it is. Exit code 77, a skip, where the version that the style was made with is missing."""

import re
import shutil
import subprocess
import sys

import common

MAJOR = "14"


def main():
    tool = shutil.which(f"clang-format-{MAJOR}") or shutil.which("clang-format")
    if not tool:
        print("format: skipped: no clang-format here (apt-get install clang-format)")
        sys.exit(77)
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", version)
    if not found or found[1] != MAJOR:
        print(f"format: skipped: wants clang-format {MAJOR}, found {version.strip()}")
        sys.exit(77)
    names = common.files(*common.CPP)
    run = subprocess.run([tool, "--dry-run", "-Werror", *names], cwd=common.ROOT, capture_output=True, text=True)
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", run.stderr, re.M)))
    if run.returncode and not bad:
        bad = [run.stderr.strip()]
    common.report("format", [f"{name}: run clang-format -i {name}" for name in bad], f"{len(names)} files")


if __name__ == "__main__":
    main()
