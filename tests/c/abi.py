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


def version(file):
    return [int(part) for part in re.findall(r"\d+", file.name.removeprefix("libtutti_c"))]


def described(library, header, file):
    """Writes what the header's functions and types are in the library, by its debug information; types of no header are left out."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(header, folder)
        subprocess.run(["abidw", "--headers-dir", folder, "--drop-private-types", "--exported-interfaces-only", "--drop-undefined-syms",
                        "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--no-parameter-names",
                        "--out-file", file, library], check=True)
    if not re.search(r"class-decl name='tutti_call' size-in-bits", pathlib.Path(file).read_text()):
        sys.exit(f"{library} has no debug information, of which its types could be read")


def main():
    library, header, *more = sys.argv[1:]
    if shutil.which("abidiff") is None:
        print("skipped: there is no abidiff (Debian: abigail-tools)")
        sys.exit(77)
    if more == ["--record"]:
        project = re.search(r"project\(tutti VERSION ([\d.]+)", (HERE.parents[1] / "CMakeLists.txt").read_text())[1]
        return described(library, header, HERE / f"libtutti_c-{project}.abi")
    last = max(HERE.glob("libtutti_c-*.abi"), key=version)
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder) / "now.abi"
        described(library, header, now)
        done = subprocess.run(["abidiff", "--no-show-locs", "--no-added-syms", last, now], capture_output=True, text=True)
    print(f"beside {last.name}:\n{done.stdout}{done.stderr}")
    if done.returncode:
        sys.exit("the interface for C is not that of the last release: programs that were compiled with it may break. Add a function "
                 "instead, or give the library a new soname and record the interface anew")


if __name__ == "__main__":
    main()
