"""Which lines ran, out of the counts that programs built with --coverage left: coverage.py BUILD COUNTS.tar FOLDER

Prints the share of each source file in FOLDER, below the repository's root. A file that was compiled more than once
counts once: a line ran where it ran in any of them.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    build, counts, folder = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    for old in build.rglob("*.gcda"):
        old.unlink()
    with tarfile.open(counts) as archive:
        names = [name for name in archive.getnames() if name.endswith(".gcda")]
        archive.extractall(build)
    lines = collections.defaultdict(dict)  # by file: line -> whether it ran
    for name in names:
        said = subprocess.run(["gcov", "--stdout", "--json-format", build / name], cwd=build, capture_output=True, text=True)
        if said.returncode != 0:
            sys.exit(f"gcov failed for {name}: {said.stderr}")
        for text in said.stdout.splitlines():
            for source in json.loads(text)["files"]:
                path = os.path.relpath(os.path.join(build, source["file"]), ROOT)
                if not path.startswith(folder + "/"):
                    continue
                for line in source["lines"]:
                    lines[path][line["line_number"]] = lines[path].get(line["line_number"], False) or line["count"] > 0
    if not lines:
        sys.exit(f"nothing of {folder} was run")
    total = [0, 0]
    for path in sorted(lines):
        ran, known = sum(lines[path].values()), len(lines[path])
        total = [total[0] + ran, total[1] + known]
        missed = [number for number in sorted(lines[path]) if not lines[path][number]]
        print(f"{path:40} {100 * ran / known:5.1f} % of {known:4} lines" + (f"; not {ranges(missed)}" if missed else ""))
    print(f"{folder:40} {100 * total[0] / total[1]:5.1f} % of {total[1]:4} lines")


def ranges(numbers):
    """1, 2, 3, 7 as "1-3 7"."""
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


if __name__ == "__main__":
    main()
