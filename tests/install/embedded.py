"""tutti inside another project by FetchContent: nothing of ours that the project did not ask for is built (tests, examples),
its warnings are not errors there, and the project's program links and runs."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = f"""cmake_minimum_required(VERSION 3.22)
project(embedding {{languages}})
include(FetchContent)
FetchContent_Declare(tutti SOURCE_DIR {ROOT})
set(TUTTI_TOOLS OFF)
FetchContent_MakeAvailable(tutti)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE tutti::tutti)
"""
C_PROGRAM = """add_executable(c_program program.c)
target_link_libraries(c_program PRIVATE tutti::c)
"""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--compiler"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, build = pathlib.Path(folder), pathlib.Path(folder) / "build"
        has_c = shutil.which("cc") is not None
        text = PROJECT.replace("{languages}", "C CXX" if has_c else "CXX") + (C_PROGRAM if has_c else "")
        (source / "CMakeLists.txt").write_text(text)
        (source / "program.c").write_text((ROOT / "examples/c/average.c").read_text())
        (source / "program.cpp").write_text((ROOT / "examples/average.cpp").read_text())
        optional = ("TORCH", "PYTHON", "DATA", "ENGINE", "GLOO", "OPENMPI", "MPICH", "IBVERBS", "CUDA", "NCCL")
        run(given.cmake, "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_POLICY_DEFAULT_CMP0077=NEW",
            f"-DCMAKE_CXX_COMPILER={given.compiler}", "-DCMAKE_CXX_FLAGS=-O0", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            *(f"-DTUTTI_WITH_{part}=OFF" for part in optional))
        commands = json.loads((build / "compile_commands.json").read_text())
        for command in commands:
            file = command["file"]
            if "-Werror" in command["command"]:
                sys.exit(f"{file} is compiled with -Werror")
            for unwanted in ("examples", "tests"):
                if file.startswith(f"{ROOT}/{unwanted}/"):
                    sys.exit(f"{file} would be built in a project that embeds tutti")
        run(given.cmake, "--build", build, "-j", str(min(4, os.cpu_count() or 1)))
        for program in ("program", "c_program") if has_c else ("program",):
            said = run(build / program).strip()
            if said != "1 ranks: mean 1, worst 0":
                sys.exit(f"the program {program} printed: {said}")
    print(f"{len(commands)} files, none of them with -Werror, no test and no example; the programs run")


main()
