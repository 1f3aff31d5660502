"""Installs into a temporary prefix, builds the README's program out of tree with find_package(tutti), and runs it alone
and under the installed `tutti run`."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(outside CXX)
find_package(tutti REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE tutti::tutti)
"""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def readme_program():
    blocks = re.findall(r"^```cpp\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    if not blocks:
        sys.exit("README.md has no ```cpp block")
    example = (ROOT / "examples/average.cpp").read_text()
    if example.split("\n", 1)[1] != blocks[0]:
        sys.exit("the program of README.md and examples/average.cpp (without its first line) differ")
    return blocks[0]


def expect(output, wanted):
    if output.strip() != wanted:
        sys.exit(f"expected: {wanted}\nprinted:  {output}")
    print(wanted)


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--build", "--compiler", "--flags"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    program = readme_program()
    with tempfile.TemporaryDirectory() as folder:
        prefix, source, build = (pathlib.Path(folder) / name for name in ("prefix", "source", "build"))
        run(given.cmake, "--install", given.build, "--prefix", prefix)
        source.mkdir()
        (source / "program.cpp").write_text(program)
        (source / "CMakeLists.txt").write_text(PROJECT)
        run(given.cmake, "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_CXX_COMPILER={given.compiler}", f"-DCMAKE_CXX_FLAGS=-Wall -Wextra {given.flags}")
        run(given.cmake, "--build", build)
        expect(run(build / "program"), "1 ranks: mean 1, worst 0")
        expect(run(prefix / "bin/tutti", "run", "-np", "4", build / "program"), "4 ranks: mean 2.5, worst 1.5")


main()
