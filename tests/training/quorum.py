"""How much a slow worker holds up the fast ones, by how many make a round."""

import os
import signal
import statistics
import subprocess
import time

from setup import Folder, Table, metrics

WORKERS, SECONDS = 4, 18
# A worker that runs for a quarter of the time.
STOPPED, RUNNING = 0.06, 0.02
MEMBERS = {"any": [], "quorum": ["strategy.quorum=3"], "all": []}
GOAL = 0.95


def quorum(setup):
    """decoupled-diloco where the last of four workers is stopped three quarters of the time."""
    table = Table(f"lenet-digits, decoupled-diloco, a master and {WORKERS} workers of which one is 4 times slower", "a round is of",
                  "samples per second of a fast worker", "beside no rounds", "goal")
    speeds = {members: [] for members in MEMBERS}
    with Folder() as folder:
        setup.fetch_digits(folder)
        for turn in range(3):
            for members, words in MEMBERS.items():
                speeds[members].append(speed_with_a_slow_one(setup, folder, f"{members}{turn}", [f"strategy.members={members}", *words]))
    free = statistics.median(speeds["any"])
    for members, found in speeds.items():
        part = statistics.median(found) / free
        goal = f"{GOAL:.2f}" if members == "quorum" else ""
        name = {"any": "each worker alone", "quorum": "3 of 4 workers", "all": "all workers"}[members]
        table.add(name, f"{statistics.median(found):.0f}", f"{part:.2f}", goal, ok=not goal or part >= GOAL)
    return table


def speed_with_a_slow_one(setup, folder, run, words):
    """Of the first worker, after its first epoch."""
    config = ["--config", "lenet-digits", "data=digits", "epochs=1000", "strategy=decoupled-diloco", "strategy.every=8", "masters=1",
              "checkpoint.at_end=false", "stop.target=0", "lr=0.01", "strategy.outer=sgd", "strategy.outer_lr=0.25",
              "progress=off", f"run={run}", *words]
    script = f"echo $TUTTI_RANK $$; exec {setup.tutti} train {' '.join(config)}"
    job = subprocess.Popen([setup.tutti, "run", "-np", str(WORKERS + 1), "--keep-going", "sh", "-c", script], text=True,
                           env=setup.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    try:
        pids = dict(map(int, job.stdout.readline().split()) for _ in range(WORKERS + 1))
        slow, end = pids[WORKERS], time.monotonic() + SECONDS
        while time.monotonic() < end and job.poll() is None:
            os.kill(slow, signal.SIGSTOP)
            time.sleep(STOPPED)
            os.kill(slow, signal.SIGCONT)
            time.sleep(RUNNING)
        if job.poll() is not None:
            raise SystemExit(f"the run ended by itself: {job.stderr.read()}")
    finally:
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
    rows = metrics(folder / run)[1:]
    return statistics.median(float(row["samples_per_second"]) for row in rows)
