"""The Python package for a tutti that is installed (TUTTI_ROOT): nothing but the binding is compiled, it uses the installed library and
command, and an installation that does not fit is refused with what to do."""

import argparse
import json
import pathlib
import re
import sys
import tempfile

from consumers import run, tried

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """import tutti
world = tutti.init()
total = world.allreduce(world.rank + 1)
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libtutti.so" in line}
if world.rank == 0:
    print(world.size, total, *mapped)
"""


def configure(given, build, root):
    return tried(given.cmake, "-S", ROOT, "-B", build, "-G", "Ninja", f"-DTUTTI_ROOT={root}", f"-DTUTTI_PYTHON={given.python}",
                 f"-DCMAKE_CXX_COMPILER={given.compiler}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
                 "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG", "-DTUTTI_WITH_PYTHON=ON", "-DTUTTI_WITH_TORCH_BACKEND=OFF")


def refused(given, folder, root, *says):
    done = configure(given, folder / "refused", root)
    said = " ".join(done.stderr.split())
    for words in (*says, "cmake --install build/release --prefix", "or leave TUTTI_ROOT out"):
        if done.returncode == 0 or words not in said:
            sys.exit(f"configuring with TUTTI_ROOT={root} ended with {done.returncode} and did not say '{words}':\n{said}")


def changed(file, pattern, instead):
    text = file.read_text()
    file.write_text(re.sub(pattern, instead, text))
    if file.read_text() == text:
        sys.exit(f"{file} has no {pattern}")
    return lambda: file.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    for name in ("cmake", "build", "compiler", "python"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        refused(given, folder, folder / "nowhere", "there is no installed tutti")
        run(given.cmake, "--install", given.build, "--prefix", prefix)
        (config,) = prefix.glob("lib*/**/tutti-config.cmake")
        back = changed(config.with_name("tutti-config-version.cmake"), r'PACKAGE_VERSION "[0-9.]+"', 'PACKAGE_VERSION "0.0.9"')
        refused(given, folder, prefix, "the tutti there is 0.0.9, and this tree's Python package needs")
        back()
        back = changed(config, r'tutti_HEADERS "[0-9a-f]{64}"', f'tutti_HEADERS "{"0" * 64}"')
        refused(given, folder, prefix, "was built from other headers than this tree's")
        back()

        build = folder / "build"
        done = configure(given, build, prefix)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        run(given.cmake, "--build", build)
        ours = {str(file.relative_to(build)) for file in build.rglob("*.o") if "nanobind" not in file.name and "nb_" not in file.name}
        strangers = [file for file in ours if "tutti_python" not in file and "tutti_views" not in file and "nanobind" not in file]
        if strangers or not ours:
            sys.exit(f"besides the binding there is compiled: {strangers}")
        (folder / "program.py").write_text(PROGRAM)
        (command,) = prefix.glob("bin/tutti")
        said = run(command, "run", "-np", "2", given.python, "-B", folder / "program.py", PYTHONPATH=str(build / "python")).split()
        if said[:2] != ["2", "3"] or [pathlib.Path(file).is_relative_to(prefix) for file in said[2:]] != [True]:
            sys.exit(f"the program printed {said}")
        places = json.loads((build / "python/tutti/_place.json").read_text())
        as_module = (given.python, "-B", "-m", "tutti")
        if run(*as_module, "--cmakedir", PYTHONPATH=str(build / "python")).strip() != str(config.parent):
            sys.exit(f"--cmakedir is not {config.parent}: {places}")
        if "shm" not in run(*as_module, "info", PYTHONPATH=str(build / "python")):
            sys.exit("the command of the package does not answer")
    print(f"{len(ours)} files compiled")


main()
