"""The interface for C beside that of the last release, by abidiff: what a program was compiled with must still be there, with the same
types. Functions may be added.

  abi.py LIBRARY HEADER            compares with libtutti_c-VERSION.abi, of which the newest is taken
  abi.py LIBRARY HEADER --record   writes libtutti_c-VERSION.abi of this version: when it is released, and not otherwise"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CHANGED, INCOMPATIBLE = 4, 8  # bits of abidiff's exit code; 1 and 2 are errors


def version(file):
    return [int(part) for part in re.findall(r"\d+", file.name.removeprefix("libtutti_c"))]


def public(header, folder):
    """A folder of the public header alone: types that are defined elsewhere are private."""
    shutil.copy(header, folder)
    return folder


def record(library, header):
    project = re.search(r"project\(tutti VERSION ([\d.]+)", (HERE.parents[1] / "CMakeLists.txt").read_text())[1]
    file = HERE / f"libtutti_c-{project}.abi"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["abidw", "--headers-dir", public(header, folder), "--drop-private-types", "--exported-interfaces-only", "--drop-undefined-syms",
                        "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--no-parameter-names",
                        "--out-file", file, library], check=True)
    print(f"{file.name}: {file.stat().st_size} bytes")


def main():
    library, header, *more = sys.argv[1:]
    if shutil.which("abidiff") is None:
        print("skipped: there is no abidiff (Debian: abigail-tools)")
        sys.exit(77)
    if more == ["--record"]:
        return record(library, header)
    last = max(HERE.glob("libtutti_c-*.abi"), key=version)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["abidiff", "--no-show-locs", "--headers-dir2", public(header, folder), "--drop-private-types", last, library],
                              capture_output=True, text=True)
    print(f"beside {last.name}:\n{done.stdout}{done.stderr}")
    if done.returncode & ~CHANGED:
        sys.exit("the interface for C is not compatible with the last release: programs that were compiled with it would break. "
                 "Add a function instead, or give the library a new soname and record the interface anew")


if __name__ == "__main__":
    main()
