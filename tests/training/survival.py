"""Training while ranks are killed, stopped and replaced."""

import csv
import hashlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import time

from setup import Folder, Table, metrics

KILL_SECONDS, KILL_EVERY = 180, 5
STORM_SECONDS, STORM_EVERY, STORM_RANKS = 600, 3, 8
CONFIG = ["--config", "lenet-digits", "data=digits", "deterministic=membership", "progress=off", "stop.target=0"]


def ranks_of(launcher):
    """The processes of ranks that a launcher has started, by rank; not those that are still the launcher's program."""
    found = {}
    try:
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    except OSError:
        return found
    for pid in children:
        try:
            entries = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        variables = dict(entry.split("=", 1) for entry in entries if "=" in entry)
        if variables.get("TUTTI_STARTER") and program.endswith("tutti-train"):
            found[int(variables["TUTTI_RANK"])] = int(pid)
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


def run(setup, folder, name, ranks, words, seconds, disturb):
    """Trains for so many seconds; disturb(ranks by number) is called about 50 times per second."""
    job = subprocess.Popen([setup.tutti, "train", "-np", str(ranks), *CONFIG, f"run={name}", *words], env=setup.environment, cwd=folder,
                           stdout=open(folder / f"{name}.txt", "w"), stderr=subprocess.STDOUT)
    while job.poll() is None and "epoch" not in (folder / f"{name}.txt").read_text():
        time.sleep(0.05)
    end = time.monotonic() + seconds
    while job.poll() is None:
        disturb(ranks_of(job.pid), time.monotonic() < end)
        time.sleep(0.02)
    return job.returncode, (folder / f"{name}.txt").read_text()


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

        words = [f"epochs={epochs}", "elastic.max=4", "elastic.min=1", "report.samples=ledger"]
        code, said = run(setup, folder, "killed", 4, words, 1e9, disturb)
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


def storm(setup):
    """A fault every 3 s for 10 minutes on 8 ranks: kill -9, or SIGSTOP for 1 to 5 s."""
    table = Table(f"lenet-digits on {STORM_RANKS} ranks, a fault every {STORM_EVERY} s for {STORM_SECONDS} s", "what", "goal", "seen")
    chance = random.Random(time.time_ns())
    with Folder() as folder:
        setup.fetch_digits(folder)
        begin = time.monotonic()
        setup.train(STORM_RANKS, *CONFIG, "epochs=10", "run=probe", cwd=folder)
        per_epoch = (time.monotonic() - begin) / 10
        epochs = int(STORM_SECONDS / per_epoch)
        setup.train(STORM_RANKS, *CONFIG, f"epochs={epochs}", "run=whole", cwd=folder)
        killed = stopped = 0
        sleeping, looks, alive, next_fault, begin = {}, 0, 0, 0, time.monotonic()

        def disturb(ranks, may_fault):
            nonlocal killed, stopped, looks, alive, next_fault
            now = time.monotonic()
            for pid in [pid for pid, until in sleeping.items() if now >= until]:
                del sleeping[pid]
                try:
                    os.kill(pid, signal.SIGCONT)
                except OSError:
                    pass
            looks, alive = looks + 1, alive + len(ranks)
            if now < next_fault or not may_fault or len(ranks) < 2:
                return
            next_fault = now + STORM_EVERY
            victim = chance.choice(list(ranks.values()))
            if chance.random() < 0.6:
                killed += 1
                os.kill(victim, signal.SIGKILL)
            elif victim not in sleeping:
                stopped += 1
                sleeping[victim] = now + chance.uniform(1, 5)
                os.kill(victim, signal.SIGSTOP)

        words = [f"epochs={epochs}", f"elastic.max={STORM_RANKS}", "elastic.min=1"]
        code, said = run(setup, folder, "stormy", STORM_RANKS, words, STORM_SECONDS, disturb)
        seconds = time.monotonic() - begin
        table.add("kills, stops", "", f"{killed}, {stopped}")
        table.add("the job ends well", "exit code 0", code, ok=code == 0)
        if code == 0:
            same = bits(folder / "stormy") == bits(folder / "whole")
            table.add("bits of the network", "those without faults", "equal" if same else "other ones", ok=same)
            quiet = sum(float(row["seconds"]) for row in metrics(folder / "whole"))
            live = alive / looks / STORM_RANKS
            table.add("ranks that live, on average", "", f"{live:.2f}")
            table.add("steps per second beside no faults, over that share", "0.9", f"{quiet / seconds / live:.2f}", ok=quiet / seconds / live >= 0.9)
        else:
            print(said[-3000:])
    return table
