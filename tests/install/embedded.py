"""tutti inside another project by FetchContent: nothing of ours that the project did not ask for is built (tests, examples),
its warnings are not errors there, and the project's programs of C and C++ link and run. What the static build installs is used from outside
too, by find_package and by pkg-config."""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from consumers import by_pkg_config, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = f"""cmake_minimum_required(VERSION 3.22)
project(embedding C CXX)
include(FetchContent)
FetchContent_Declare(tutti SOURCE_DIR {ROOT})
set(TUTTI_TOOLS OFF)
FetchContent_MakeAvailable(tutti)
# A shared and a static build compile alike, so that a compiler cache has what the other one compiled.
set_target_properties(tutti tutti_c PROPERTIES DEFINE_SYMBOL "")
"""
PROGRAMS = """add_executable(program program.cpp)
target_link_libraries(program PRIVATE tutti::tutti)
add_executable(c_program program.c)
target_link_libraries(c_program PRIVATE tutti::c)
"""
OUTSIDE = """cmake_minimum_required(VERSION 3.22)
project(outside C CXX)
find_package(tutti REQUIRED COMPONENTS c)
"""
WANTED = "1 ranks: mean 1, worst 0"


def expect(*programs):
    for program in programs:
        said = run(program).strip()
        if said != WANTED:
            sys.exit(f"the program {program} printed: {said}")


def project(folder, text):
    """A project with a program in each language."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(text + PROGRAMS)
    (folder / "program.c").write_text((ROOT / "examples/c/average.c").read_text())
    (folder / "program.cpp").write_text((ROOT / "examples/average.cpp").read_text())
    return folder


def installed(given, folder, build):
    """The same programs, with what `build` installs and no other way to it."""
    prefix, source = folder / "prefix", project(folder / "outside", OUTSIDE)
    run(given.cmake, "--install", build, "--prefix", prefix)
    run(given.cmake, "-S", source, "-B", source / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={given.compiler}")
    run(given.cmake, "--build", source / "build")
    expect(source / "build/program", source / "build/c_program",
           by_pkg_config(prefix, "tutti", "cc", "c11", source / "program.c"),
           by_pkg_config(prefix, "tutti-cxx", given.compiler, "c++20", source / "program.cpp"))


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--compiler"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--static", action="store_true", help="libtutti as a static library; else a shared one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source, build = project(folder / "embedding", PROJECT), folder / "build"
        optional = ("TORCH", "PYTHON", "DATA", "ENGINE", "GLOO", "OPENMPI", "MPICH", "IBVERBS", "CUDA", "NCCL")
        run(given.cmake, "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_POLICY_DEFAULT_CMP0077=NEW",
            f"-DCMAKE_CXX_COMPILER={given.compiler}", "-DCMAKE_CXX_FLAGS=-O0", "-DTUTTI_PRECOMPILE=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
            f"-DBUILD_SHARED_LIBS={'OFF' if given.static else 'ON'}", *(f"-DTUTTI_WITH_{part}=OFF" for part in optional))
        commands = json.loads((build / "compile_commands.json").read_text())
        for command in commands:
            file = command["file"]
            if "-Werror" in command["command"]:
                sys.exit(f"{file} is compiled with -Werror")
            for unwanted in ("benchmarks", "examples", "tests"):
                if file.startswith(f"{ROOT}/{unwanted}/"):
                    sys.exit(f"{file} would be built in a project that embeds tutti")
        run(given.cmake, "-S", source, "-B", build, "-DTUTTI_UNITY=ON")  # what is compiled is known: now sooner
        run(given.cmake, "--build", build, "-j", str(min(4, os.cpu_count() or 1)))
        expect(build / "program", build / "c_program")
        if given.static:
            installed(given, folder, build)
    print(f"{len(commands)} files, none of them with -Werror, no test and no example; the programs run")


main()
