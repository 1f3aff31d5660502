"""CONTRIBUTING.md's recipe for a new transport: the folder `throwaway` and its one line are put into a copy of the tree, and
nothing else. Then `tutti info` lists it, its setting is one as any other, and it carries a job's messages.

Only what the recipe changes is compiled; the rest of that libtutti is this build's own objects."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
OFF = [f"-DTUTTI_WITH_{part}=OFF" for part in ("TORCH", "CUDA", "GLOO", "OPENMPI", "MPICH", "IBVERBS", "PYTHON", "C")]
CHANGED = ("provider_list.cpp.o", "setting_list.cpp.o")


def run(*command, code=0, **variables):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100,
                          env={**os.environ, **variables})
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def expect(output, *patterns):
    for pattern in patterns:
        if not re.search(pattern, output, re.M):
            sys.exit(f"expected: {pattern}\nprinted:\n{output}")
        print(pattern)


def follow(tree):
    """A copy of the tree with the recipe's folder and line."""
    tree.mkdir()
    for place in ROOT.iterdir():
        if place.name not in ("build", "transports") and not place.name.startswith("."):
            (tree / place.name).symlink_to(place)
    shutil.copytree(ROOT / "transports", tree / "transports")
    shutil.copytree(HERE / "throwaway", tree / "transports/throwaway")
    with open(tree / "transports/CMakeLists.txt", "r+", encoding="utf-8") as file:
        text = file.read()
        file.seek(0)
        file.write(text.replace("add_subdirectory(inproc)\n", "add_subdirectory(inproc)\nadd_subdirectory(throwaway)\n"))


def library(given, folder):
    """libtutti of that tree."""
    tree, build = folder / "tree", folder / "build"
    follow(tree)
    run(given.cmake, "-S", tree, "-B", build, "-G", "Ninja", f"-DCMAKE_CXX_COMPILER={given.compiler}", "-DCMAKE_BUILD_TYPE=None",
        "-DTUTTI_PRECOMPILE=OFF", "-DTUTTI_TESTS=OFF", "-DTUTTI_TOOLS=OFF", "-DTUTTI_EXAMPLES=OFF", *OFF)
    new = [f"transports/CMakeFiles/tutti_transports.dir/{name}" for name in (*CHANGED, "throwaway/throwaway.cpp.o")]
    run(given.ninja, "-C", build, *new, CCACHE_BASEDIR=str(folder), CCACHE_NOHASHDIR="1")
    ours = [name for name in pathlib.Path(given.objects).read_text(encoding="utf-8").split() if name.endswith(".o")]
    kept = [name for name in ours if not name.endswith(CHANGED)]
    if len(kept) != len(ours) - len(CHANGED):
        sys.exit(f"{given.objects} does not have {CHANGED}")
    built = pathlib.Path(given.modules).parent / "libtutti.so"
    soname = re.search(r"SONAME.*\[(\S+)\]", run("readelf", "-d", built))[1]
    made = folder / "lib" / soname
    made.parent.mkdir()
    (made.parent / "tutti").symlink_to(given.modules)
    (folder / "objects").write_text("\n".join([*kept, *(str(build / name) for name in new)]), encoding="utf-8")
    run(given.compiler, "-shared", f"-Wl,-soname,{made.name}", "-Wl,-Bsymbolic-functions", "-o", made, f"@{folder / 'objects'}",
        "-pthread", "-ldl")
    return made


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--cmake", "--ninja", "--compiler", "--objects", "--modules", "--tutti", "--conformance"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = str(library(given, pathlib.Path(folder)))

        def tutti(*words, **more):
            return run(given.tutti, *words, LD_PRELOAD=made, **more)

        shown = tutti("info")
        expect(shown, r"^throwaway +transport +yes +for tests: what tcp does$")
        if "is made for" in shown:  # modules that were compiled without the setting
            sys.exit(f"a provider's setting has moved the ABI number of others:\n{shown}")
        patience = "TUTTI_THROWAWAY_PATIENCE"
        expect(tutti("info", **{patience: "0"}), r"^throwaway .* no +.*; not viable: throwaway_patience is 0$")
        expect(tutti("info", "-c"), r"^throwaway_patience +7 +7 +default +for tests; 0: the transport is not viable$")
        expect(tutti("info", "-c", **{patience: "5"}), r"^throwaway_patience +5 +7 +environment ")
        expect(tutti("info", "-c", "--throwaway-patience", "3"), r"^throwaway_patience +3 +7 +flag ")
        expect(tutti("info", code=2, **{patience: "10"}), f"{patience}='10': give a value from 0 to 9\\.")
        expect(tutti("info", **{patience + "E": "1"}), f"{patience}E means nothing to this version; did you mean {patience}\\?")
        ranks = f"{patience}=$((TUTTI_RANK + 3)) exec {given.tutti} info --routes"
        expect(tutti("run", "-np", "2", "--transport", "throwaway", "--log", "info", "sh", "-c", ranks),
               "throwaway_patience is '3' as on rank 0, not '4'", "^ +to +1 +tcp")
        case = "Ways/TransportConformance.carries_every_size_between_every_pair/throwaway"
        expect(run(given.conformance, f"--gtest_filter={case}", LD_PRELOAD=made), f"OK . {case}")


main()
