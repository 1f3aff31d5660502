"""The table of optional parts: any reason is printed and compiled as it is, and configuring succeeds with every part
missing, both where the user switched it off and where nothing of it is installed."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent

# The parts of awkward_parts.cmake: name, whether it is built, reason.
AWKWARD = [
    ("semicolon", False, "no mpi.h found; -DX=/folder names it;"),
    ("pipe", True, "one|two||three|"),
    ("quote", False, 'it is called "libfoo" here'),
    ("raw", False, 'ends a raw string: )" and )reason"'),
    ("backslash", True, "C:\\temp\\new\\"),
    ("lines", False, "the first line\nthe second;line"),
    ("brackets", True, "[a;b] and [c, ()"),
    ("variable", False, "@entries@ and ${entries} and %s {}"),
    ("empty", True, ""),
    ("later", False, "the last one is listed, too"),
]
PROGRAM = """#include <cstdio>
#include "tools/info/parts.hpp"
int main() {
  for (const auto& part : tutti::tools::parts())
    std::printf("%.*s%c%d%c%.*s%c", int(part.name.size()), part.name.data(), 0, int(part.built), 0,
                int(part.reason.size()), part.reason.data(), 0);
}
"""
PACKAGES = ("CLI11_DIR", "fmt_DIR", "yaml-cpp_DIR", "nlohmann_json_DIR", "Boost_DIR", "Boost_INCLUDE_DIR")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=200, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: expected\n  {wanted!r}\nbut found\n  {found!r}")


def printed_table(output):
    """The lines of the table: [name, state, reason], the reason's lines joined again."""
    rows = []
    for line in output.splitlines():
        if not line.startswith("-- "):
            continue
        row = re.fullmatch(r"-- ([a-z0-9_]+) +(on|off) *(.*)", line)
        if row:
            rows.append([*row.groups()])
        elif rows and line.startswith("-- " + " " * 23):
            rows[-1][2] += "\n" + line[26:]
    return rows


def compiled_table(compiler, build, folder):
    (folder / "main.cpp").write_text(PROGRAM)
    run(compiler, "-std=c++20", "-Wall", "-Werror", "-I", ROOT, "-I", ROOT / "include", folder / "main.cpp", build / "generated/parts.cpp",
        "-o", folder / "main")
    words = run(folder / "main").split("\0")
    return [(words[i], words[i + 1] == "1", words[i + 2]) for i in range(0, len(words) - 1, 3)]


def awkward_reasons(given, folder):
    output = run(given.cmake, f"-DMODULE={ROOT / 'cmake/TuttiOptions.cmake'}", f"-DPROJECT_BINARY_DIR={folder}",
                 "-P", HERE / "awkward_parts.cmake")
    rows = printed_table(output)
    expect("the printed table", [tuple(row) for row in rows],
           [(name, "on" if built else "off", reason) for name, built, reason in AWKWARD])
    expect("the compiled table", compiled_table(given.compiler, folder, folder), AWKWARD)
    print(f"{len(rows)} awkward reasons: printed and compiled as they are")


def cached(build):
    lines = (pathlib.Path(build) / "CMakeCache.txt").read_text().splitlines()
    return dict(re.fullmatch(r"([^#/][^:]*):[A-Z]+=(.*)", line).groups() for line in lines
                if re.fullmatch(r"([^#/][^:]*):[A-Z]+=(.*)", line))


def configure(given, folder, *flags, **options):
    output = run(given.cmake, "-S", ROOT, "-B", folder / "build", "-G", "Ninja", "-DTUTTI_TESTS=OFF",
                 f"-DCMAKE_CXX_COMPILER={given.compiler}", f"-DCMAKE_MAKE_PROGRAM={given.ninja}", *flags, **options)
    rows = printed_table(output)
    options = {key[len("TUTTI_WITH_"):].lower() for key in cached(folder / "build") if re.fullmatch("TUTTI_WITH_[A-Z0-9_]+", key)}
    expect("the parts listed", {row[0] for row in rows}, options)
    for name, state, reason in rows:
        if not reason or reason != reason.strip():
            sys.exit(f"{name} is {state} for a reason that is empty or ends in a blank: {reason!r}")
    compiled_table(given.compiler, folder / "build", folder)
    return {row[0]: row[1:] for row in rows}


def switched_off(given, folder):
    names = sorted(key for key in cached(given.build) if re.fullmatch("TUTTI_WITH_[A-Z0-9_]+", key))
    rows = configure(given, folder, *(f"-D{name}=OFF" for name in names))
    for name, (state, reason) in rows.items():
        expect(name, (state, reason), ("off", f"TUTTI_WITH_{name.upper()}=OFF"))
    print(f"{len(rows)} parts switched off: configured")


def absent(given, folder):
    """Nothing is found but the compiler and what the tools cannot do without."""
    root, programs = folder / "root", folder / "bin"
    root.mkdir()
    programs.mkdir()
    (programs / "python3").write_text("#!/bin/sh\nexit 1\n")  # which may have PyTorch
    (programs / "python3").chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CUDACXX", "CUDA_HOME")}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    cache = cached(given.build)
    modes = (f"-DCMAKE_FIND_ROOT_PATH_MODE_{what}=ONLY" for what in ("PROGRAM", "LIBRARY", "INCLUDE", "PACKAGE"))
    rows = configure(given, folder, f"-DCMAKE_FIND_ROOT_PATH={root}", *modes,
                     *(f"-D{key}={cache[key]}" for key in PACKAGES if key in cache), env=environment)
    found = {name for name, (state, _) in rows.items() if state == "on"}
    expect("the parts that need nothing installed", found, {"c", "nccl"})  # NCCL is looked for at run time
    print(f"{len(rows)} parts absent: configured")


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--build", "--compiler", "--ninja"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    for check in (awkward_reasons, switched_off, absent):
        with tempfile.TemporaryDirectory() as folder:
            check(given, pathlib.Path(folder))


main()
