"""What the process tests share: where the programs are, running them, looking for processes that should be gone."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BIN, TESTS = sys.argv[1], sys.argv[2]
TUTTI = os.path.join(BIN, "tutti")
PROBE = os.path.join(TESTS, "bootstrap_probe")


def clean_environment(**extra):
    """Without any launcher's variables, whatever started this test."""
    ours = ("TUTTI_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "MASTER_", "MPI_LOCAL")
    plain = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours) and k not in plain}
    return {**kept, **extra}


def run(*words, env=None, **options):
    """Ends everything that it started when 60 s have passed."""
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60,
                          env=env or clean_environment(), **options)


def torchrun():
    """Where it is: what TORCHRUN says, the environment that `tests/run --full` makes, PATH. Skips the test where it is not."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for path in (os.environ.get("TORCHRUN"), os.path.join(root, "build", "venv-torch", "bin", "torchrun"), shutil.which("torchrun")):
        if path and os.access(path, os.X_OK):
            return path
    raise unittest.SkipTest("torchrun is not there; `tests/run --full` brings it")


def tutti_run(ranks, *words, flags=(), **options):
    return run(TUTTI, "run", "-np", ranks, *flags, *words, **options)


def shell(ranks, script, *flags, **options):
    return tutti_run(ranks, "sh", "-c", script, flags=flags, **options)


def script(case, text):
    """A program that is gone with the test."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as file:
        file.write("#!/bin/sh\n" + text + "\n")
    os.chmod(file.name, 0o700)
    case.addCleanup(os.unlink, file.name)
    return file.name


def state(pid):
    """The letter of /proc/PID/stat; X where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def alive(pid):
    return state(pid) not in "ZX"


def wait_until(condition, seconds=30):
    """Polls; false where it never held. The limit is for what has gone wrong, not a measurement."""
    for _ in range(int(seconds * 100)):
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())
