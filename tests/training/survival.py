"""Training while ranks are killed and replaced."""

import csv
import hashlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import time

from setup import Folder, Table

KILL_SECONDS, KILL_EVERY = 180, 5
CONFIG = ["--config", "lenet-digits", "data=digits", "deterministic=membership", "progress=off", "stop.target=0"]


def children_of(pid):
    try:
        return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


def ranks_of(launcher):
    """The processes of ranks that a launcher has started, itself or by agents, by rank; not those that are still the launcher's
    program."""
    found, look_at = {}, children_of(launcher)
    while look_at:
        pid = look_at.pop()
        look_at += children_of(pid)
        try:
            program = os.readlink(f"/proc/{pid}/exe")
            entries = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if program.endswith("tutti-train") else []
        except OSError:
            continue
        variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        if variables.get("TUTTI_STARTER"):
            found[int(variables["TUTTI_RANK"])] = pid
    return found


def started(pid):
    """When a process began, on the clock of time.clock_gettime(CLOCK_BOOTTIME)."""
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def bits(run):
    return hashlib.sha256((run / "checkpoints/last/model.safetensors").read_bytes()).hexdigest()[:16]


def samples_of_epochs(folder):
    """The samples of the steps that were done, in ascending order, by epoch; from the files of report.samples."""
    steps = {}
    for file in folder.iterdir():
        for row in csv.DictReader(file.read_text().splitlines()):
            steps.setdefault(int(row["step"]), {}).setdefault(int(row["commit"]), []).append(row)
    seen = {}
    for commits in steps.values():
        for row in commits[max(commits)]:
            seen.setdefault(int(row["epoch"]), []).extend(map(int, row["samples"].split()))
    return {epoch: sorted(ids) for epoch, ids in sorted(seen.items())}


class Watch:
    """How long new processes take from their start to their first done step, by the files in which they write their samples."""

    def __init__(self, ledger):
        self.ledger, self.open, self.times = ledger, {}, []

    def look(self, ranks):
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        for pid in ranks.values():
            self.open.setdefault(pid, None)
        for pid in [pid for pid, done in self.open.items() if done is None]:
            for file in self.ledger.glob(f"*-{pid}.csv"):
                if file.read_text().count("\n") >= 3:  # the second step begins when the first one is done
                    self.open[pid] = now
                    try:
                        self.times.append(now - started(pid))
                    except OSError:
                        pass


def run(setup, folder, name, words, seconds, disturb, before=()):
    """Trains by a command of tutti, behind the words `before`. Then disturb(ranks by number, whether the time is not over) is called until the job ends."""
    out = folder / f"{name}.txt"
    job = subprocess.Popen([*before, setup.tutti, *words, f"run={folder / name}"], env=setup.environment, cwd=folder, stdout=out.open("w"),
                           stderr=subprocess.STDOUT)
    while job.poll() is None and "epoch" not in out.read_text():
        time.sleep(0.05)
    end = time.monotonic() + seconds
    while job.poll() is None:
        disturb(ranks_of(job.pid), time.monotonic() < end)
        time.sleep(0.05)
    return job.returncode, out.read_text()


def kills(setup):
    """A kill every 5 s for 3 minutes, beside an undisturbed run on 4 ranks and on 1."""
    table = Table("lenet-digits on 4 ranks, a rank killed every 5 s and replaced", "what", "goal", "seen")
    chance = random.Random(time.time_ns())
    with Folder() as folder:
        setup.fetch_digits(folder)
        begin = time.monotonic()
        setup.train(4, *CONFIG, "epochs=20", "run=probe", cwd=folder)
        epochs = int(20 * KILL_SECONDS / (time.monotonic() - begin))
        setup.train(4, *CONFIG, f"epochs={epochs}", "run=whole", cwd=folder)
        setup.train(1, *CONFIG, f"epochs={epochs}", "run=alone", cwd=folder)
        watch, done, next_kill = Watch(folder / "ledger"), 0, time.monotonic() + KILL_EVERY

        def disturb(ranks, _):
            nonlocal done, next_kill
            watch.look(ranks)
            if time.monotonic() < next_kill or len(ranks) < 2:
                return
            next_kill = time.monotonic() + KILL_EVERY
            os.kill(chance.choice(list(ranks.values())), signal.SIGKILL)
            done += 1

        words = ["train", "-np", "4", *CONFIG, f"epochs={epochs}", "elastic.max=4", "elastic.min=1", "report.samples=ledger"]
        code, said = run(setup, folder, "killed", words, 1e9, disturb)
        table.add("kills", "", done)
        table.add("the job ends well", "exit code 0", code, ok=code == 0)
        if code == 0:
            same = bits(folder / "killed") == bits(folder / "whole") == bits(folder / "alone")
            table.add("bits of the network", "those of 4 ranks and of 1", "equal" if same else "other ones", ok=same)
            once = samples_of_epochs(folder / "ledger") == {epoch: list(range(1438)) for epoch in range(epochs)}
            table.add("each sample of each epoch in one done step", "yes", "yes" if once else "no", ok=once)
        else:
            print(said[-3000:])
        joined = sorted(watch.times[4:])
        if joined:
            table.add("from a newcomer's start to its first done step", "2 s", f"{statistics.median(joined):.2f} s (median), {joined[-1]:.2f} s "
                      f"(worst of {len(joined)})", ok=statistics.median(joined) <= 2)
    return table
