"""The table of what continuous integration judges (CONTRIBUTING.md), `tests/run --parts` and the workflow name the same parts, and the
table and the workflow the same jobs."""

import re
import subprocess

import common

TABLE, WORKFLOW = "CONTRIBUTING.md", ".github/workflows/ci.yml"
HEADING = "## What continuous integration judges"
JOB = "parts"  # the job whose matrix has them


def rows(source):
    """(first cell, last cell) of each row of the table below HEADING, without backticks."""
    section = source.partition(HEADING + "\n")[2].partition("\n## ")[0]
    lines = [line.strip().strip("|").split("|") for line in section.splitlines() if line.lstrip().startswith("|")]
    return [(cells[0].strip(" `"), cells[-1].strip(" `")) for cells in lines[2:]]


def matrix(workflow):
    """The parts in the workflow's matrix."""
    found = re.search(r"^ +part: \[([^\]]*)\]", workflow, re.M)
    return [name.strip() for name in found[1].split(",")] if found else []


def jobs(workflow):
    return re.findall(r"^  ([\w-]+):\s*$", workflow.partition("\njobs:\n")[2], re.M)


def differences(table, workflow, parts):
    """What differs between the texts of the table and of the workflow, and the parts that tests/run has."""
    problems, told = [], rows(table)
    if not told:
        return [f"{TABLE}: there is no table below `{HEADING}`"]
    for where, names in ((TABLE, [part for part, job in told if job == JOB]), (WORKFLOW, matrix(workflow))):
        problems += [f"{where}: the part {name} of tests/run is missing" for name in parts if name not in names]
        problems += [f"{where}: tests/run has no part {name}" for name in names if name not in parts]
        problems += [f"{where}: the part {name} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    here = {job for _, job in told}
    problems += [f"{TABLE}: the job {job} of {WORKFLOW} is in no row" for job in jobs(workflow) if job not in here]
    problems += [f"{TABLE}: {WORKFLOW} has no job {job}" for job in sorted(here) if job not in jobs(workflow)]
    if not re.search(r"run: tests/run --part \$\{\{ matrix\.part \}\}$", workflow, re.M):
        problems.append(f"{WORKFLOW}: nothing runs tests/run --part with the part of the matrix")
    return problems


def main():
    parts = subprocess.run([common.ROOT / "tests" / "run", "--parts"], capture_output=True, text=True, check=True).stdout.split()
    common.report("ci_table", differences(common.text(TABLE), common.text(WORKFLOW), parts), f"{len(parts)} parts")


if __name__ == "__main__":
    main()
