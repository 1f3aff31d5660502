"""The functions of tutti.h are those of prototypes.txt, with the same types. Where one was added, its line is added there; none may
change or go while the SONAME stays.

  prototypes.py COMPILER HEADER    a C compiler of GNU's, which prints declarations as it has read them
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIST = pathlib.Path(__file__).with_name("prototypes.txt")


def declared(compiler, header):
    with tempfile.TemporaryDirectory() as folder:
        source, found = os.path.join(folder, "header.c"), os.path.join(folder, "found.txt")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f'#include "{header}"\n')
        subprocess.run([compiler, "-std=c11", "-fsyntax-only", "-aux-info", found, source], check=True)
        lines = pathlib.Path(found).read_text(encoding="utf-8").splitlines()
    return {re.sub(r"^/\*.*?\*/ extern ", "", line) for line in lines if re.search(r"\btutti_\w+ \(", line)}


def main():
    now, promised = declared(*sys.argv[1:]), set(LIST.read_text(encoding="utf-8").splitlines())
    for line in sorted(promised - now):
        print(f"gone or changed: {line}")
    for line in sorted(now - promised):
        print(f"new, so to be added to {LIST.name}: {line}")
    print(f"{len(now)} functions declared, {len(promised)} promised")
    sys.exit(now != promised or not now)


main()
