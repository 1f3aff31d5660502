"""Training on several hosts while ranks are killed and stopped, and hosts do not hear each other."""

import os
import random
import signal
import time

from hosts_lab import Lab, Refused
from setup import Folder, Skipped, Table, metrics
from survival import CONFIG, bits, run

STORM_SECONDS, STORM_EVERY, STORM_RANKS = 600, 3, 8


class Storm:
    """Faults of the ranks on three hosts: a kill, a stop for a while, or a while in which two hosts do not hear each other. Called
    again and again with the ranks that are there."""

    def __init__(self, lab, chance):
        self.lab, self.chance = lab, chance
        self.done = {"kills": 0, "stops": 0, "partitions": 0}
        self.stopped, self.parted = {}, None  # until when: by process; the pair of hosts
        self.looks, self.share, self.next = 0, 0.0, 0.0

    def __call__(self, ranks, may_fault):
        now = time.monotonic()
        self.mend(now)
        self.looks += 1
        if not self.stopped and not self.parted:  # a step needs all ranks
            self.share += len(ranks) / STORM_RANKS
        if now < self.next or not may_fault or len(ranks) < 2:
            return
        self.next = now + STORM_EVERY
        victim = self.chance.choice(list(ranks.values()))
        kind = self.chance.choice(["kills", "kills", "stops", "partitions"])
        if kind == "kills":
            os.kill(victim, signal.SIGKILL)
        elif kind == "stops" and victim not in self.stopped:
            self.stopped[victim] = now + self.chance.uniform(1, 5)
            os.kill(victim, signal.SIGSTOP)
        elif kind == "partitions" and not self.parted:
            self.part(self.chance.sample(range(3), 2), now + self.chance.uniform(1, 3))
        else:
            return
        self.done[kind] += 1

    def part(self, pair, until):
        one, other = pair
        for here, there in ((one, other), (other, one)):
            self.lab.run(here, "nft", "add table inet storm; add chain inet storm in { type filter hook input priority 0; }; "
                         f"add rule inet storm in ip saddr {self.lab.address(there)} drop", check=True)
        self.parted = (pair, until)

    def mend(self, now):
        for pid in [pid for pid, until in self.stopped.items() if now >= until]:
            del self.stopped[pid]
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass
        if self.parted and now >= self.parted[1]:
            for host in self.parted[0]:
                self.lab.run(host, "nft", "delete table inet storm", check=True)
            self.parted = None


def storm(setup):
    """A fault every 3 s for 10 minutes on 8 ranks of three hosts."""
    table = Table(f"lenet-digits on {STORM_RANKS} ranks of three hosts, a fault every {STORM_EVERY} s for {STORM_SECONDS} s", "what", "goal",
                  "seen")
    try:
        with Lab(3, families=(4,)) as lab, Folder() as folder:
            setup.fetch_digits(folder)
            hosts = [f"{name}:{slots}" for name, slots in zip(lab.names(), (3, 3, 2))]
            start = ["run", "--hosts", ",".join(hosts), "--remote-start", "ip netns exec {host}", "--address", lab.address(0)]
            train = [str(setup.tutti), "train", *CONFIG]

            def whole(name, epochs):
                begin = time.monotonic()
                done = lab.run(0, setup.tutti, *start, *train, f"epochs={epochs}", f"run={folder / name}", cwd=folder,
                               env=setup.environment, timeout=3600)
                if done.returncode != 0:
                    raise SystemExit(f"storm: {done.stdout}{done.stderr}")
                return time.monotonic() - begin

            epochs = int(10 * STORM_SECONDS / whole("probe", 10))
            whole("whole", epochs)
            weather = Storm(lab, random.Random(time.time_ns()))
            begin = time.monotonic()
            words = [*start, "--elastic", f"1:{STORM_RANKS}", "--restarts", "100000", *train, f"epochs={epochs}"]
            code, said = run(setup, folder, "stormy", words, STORM_SECONDS, weather, before=lab.words(0))
            seconds = time.monotonic() - begin
            table.add(", ".join(weather.done), "", ", ".join(map(str, weather.done.values())))
            table.add("the job ends well", "exit code 0", code, ok=code == 0)
            if code != 0:
                print(said[-3000:])
                return table
            same = bits(folder / "stormy") == bits(folder / "whole")
            table.add("bits of the network", "those without faults", "equal" if same else "other ones", ok=same)
            quiet = sum(float(row["seconds"]) for row in metrics(folder / "whole"))
            live = weather.share / weather.looks
            table.add("ranks that live, times the time in which none is stopped or cut off", "", f"{live:.2f}")
            rate = quiet / seconds / live
            table.add("steps per second beside no faults, over that share", "0.9", f"{rate:.2f}", ok=rate >= 0.9)
    except Refused as why:
        raise Skipped(str(why)) from None
    return table
