#!/usr/bin/env python3
"""What a call costs besides the work of its backend, counted: instructions, and system calls of the calling thread.

Each form is made a few and many times by dispatch_probe; the difference is the calls' alone.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PROBE = os.path.join(sys.argv[2], "dispatch_probe")
FEW = 2_000
# 6 % or more above what they were when this was written; a build of several sources at a time takes 5 % more than one of each alone.
# The first three end in their launch: as operations they took more. The record of a call takes some 90 of them.
MOST_INSTRUCTIONS = {"allreduce": 1000, "broadcast": 1070, "barrier": 960, "later": 1690, "value": 1400, "planned": 2200}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stderr


def instructions(form, calls, folder):
    # Threads take turns in valgrind; one that waits for the other must not be given turn after turn.
    out = run(["valgrind", "--tool=callgrind", "--fair-sched=try", f"--callgrind-out-file={folder}/callgrind", PROBE, "calls", form,
               str(calls)])
    return int(re.search(r"Collected\s*:\s*(\d+)", out)[1])


def system_calls(form, calls, folder):
    """Of the thread that calls. The background thread has its own, about one a millisecond."""
    file = f"{folder}/strace"
    run(["strace", "-f", "-qq", "-o", file, PROBE, "calls", form, str(calls)])
    with open(file) as lines:
        threads = [line.split()[0] for line in lines]
    return threads.count(threads[0])


def count(name, how, many, most):
    """Whether all forms stay below. One that does not is counted again, twice at most: on a busy machine calls have to wake the
    background thread that it has put to sleep."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for form, limit in most.items():
            for _ in range(3):
                each = (how(form, many, folder) - how(form, FEW, folder)) / (many - FEW)
                if each <= limit:
                    break
            print(f"{form}: {max(each, 0):.2f} {name} per call, at most {limit}", flush=True)
            good &= each <= limit
    return good


def main():
    good, skipped = True, []
    for tool, name, how, many, most in (
        ("valgrind", "instructions", instructions, 12_000, MOST_INSTRUCTIONS),
        # The background thread looks for work about a hundred times while 500,000 calls are made.
        ("strace", "system calls", system_calls, 500_000, dict.fromkeys(MOST_INSTRUCTIONS, 0.01)),
    ):
        if shutil.which(tool):
            good &= count(name, how, many, most)
        else:
            skipped.append(f"{tool} is not installed, so {name} are not counted")
    for reason in skipped:
        print(reason)
    sys.exit(1 if not good else 77 if len(skipped) == 2 else 0)


if __name__ == "__main__":
    main()
