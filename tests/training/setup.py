"""What every part needs: where the programs are, how they are run, and tables."""

import csv
import os
import pathlib
import shutil
import subprocess
import tempfile


class Skipped(Exception):
    """A part cannot be had here, and why."""


class Setup:
    def __init__(self, build, torch, torch_build, rounds):
        self.tutti = (build / "bin" / "tutti").resolve()
        self.python = torch / "bin" / "python"
        self.torchrun = torch / "bin" / "torchrun"
        self.tutti_of_torch = (torch_build / "bin" / "tutti").resolve()
        self.rounds = rounds
        if not self.tutti.exists():
            raise SystemExit(f"{self.tutti} is missing: say `cmake --preset release && cmake --build --preset release`, or --build DIR")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
        self.environment |= {"OMP_NUM_THREADS": "1", "TUTTI_TUNING": "off"}

    def run(self, *words, program=None, cwd=None, timeout=3600):
        """A `tutti` command, whose output is kept."""
        return subprocess.run([program or self.tutti, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              env=self.environment, cwd=cwd, check=False)

    def train(self, ranks, *words, **options):
        """`tutti train` on so many ranks; it has to end well."""
        kept = [] if any(str(word).startswith("run=") for word in words) else ["run=none"]
        done = self.run("train", "-np", ranks, *words, *kept, "progress=off", **options)
        if done.returncode != 0:
            said = " ".join(map(str, words))
            raise SystemExit(f"tutti train -np {ranks} {said}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def fetch_digits(self, folder):
        """Handwritten digits into `folder`/digits; raises Skipped where they cannot be had."""
        made = self.run("data", "optdigits", "digits", cwd=folder)
        if made.returncode != 0:
            raise Skipped("the digits cannot be fetched here: " + made.stderr.strip())


class Folder:
    """A temporary folder, as a context."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tutti-training-"))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def metrics(run):
    """The rows of a run's metrics.csv."""
    with open(run / "metrics.csv", newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


class Table:
    """Rows under a title; `missed` lists those that do not reach their goal."""

    def __init__(self, title, *columns):
        self.title, self.columns, self.rows, self.missed, self.notes = title, columns, [], [], []

    def add(self, *cells, ok=True):
        self.rows.append([str(cell) for cell in cells])
        if not ok:
            self.missed.append(", ".join(self.rows[-1]))

    def text(self):
        widths = [max(len(row[i]) for row in [list(self.columns), *self.rows]) for i in range(len(self.columns))]
        lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [self.columns, *self.rows]]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"## {self.title}", "", *lines, *(["", *self.notes] if self.notes else [])])
