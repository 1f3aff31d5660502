"""Strangers at the sockets of a job: silent ones and talking ones, by the thousand, while it starts and while it runs.

    python3 tests/integration/strangers.py [--strangers 5000] [--repeat 3] [--build build/dev] [--only PATTERN]

prints one line for each socket and kind of stranger. A rank or the whole job is held back until half of the strangers
have called; the time until the first call of all pairs has ended runs from when it is let go, while the other half
call. The strangers' processes have a low priority, since strangers have machines of their own.
"""

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from strangers_crowd import RANKS, Crowd, processes_below, rank_of, targets_of

HELD = RANKS - 1  # the rank that comes late

class Hold:
    """The late rank's way to the store, which stops where its request has `mark`, until it is let go."""

    def __init__(self, mark):
        self.mark, self.store = mark, None
        self.holds, self.free, self.since = threading.Event(), threading.Event(), 0.0
        self.heard = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.links, self.threads = [], []
        self._begin(self._accept)

    def close(self):
        self.free.set()
        for one in [self.listener, *self.links]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for one in [self.listener, *self.links]:
            one.close()

    def instances(self):
        """By rank: what tcp connections to it must name."""
        return {int(rank): int(number) for rank, number in re.findall(rb"tcp 1\n(\d+)\n(\d+)\n", self.heard)}

    def _begin(self, what, *args):
        self.threads.append(threading.Thread(target=what, args=args, daemon=True))
        self.threads[-1].start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(self.store)
                self.links += [near, far]
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._begin(self._pump, near, far, self.mark)
                self._begin(self._pump, far, near, None)

    def _pump(self, one, other, mark):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                self.heard += data
                if mark and mark in data and not self.free.is_set():
                    self.since = time.monotonic()
                    self.holds.set()
                    self.free.wait()
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


# Where the strangers call, by which transport the ranks talk, and what is held back meanwhile.
Case = collections.namedtuple("Case", "name transport roles kinds mark")
BOTH = ("silent", "talking")
CASES = [
    Case("store, silent", "shm", ("store",), ("silent",), None),
    Case("store, talking", "shm", ("store",), ("talking",), None),
    Case("shm meeting, silent", "shm", ("meeting",), ("silent",), b"0/at"),
    Case("shm meeting, talking", "shm", ("meeting",), ("talking",), b"0/at"),
    Case("shm meeting, other user", "shm", ("meeting",), ("other user",), b"0/at"),
    Case("shm bells, talking", "shm", ("bell",), ("talking",), b"0/at"),
    Case("tcp, silent", "tcp", ("tcp",), ("silent",), b"tcp addresses/%d" % HELD),
    Case("tcp, talking", "tcp", ("tcp",), ("talking",), b"tcp addresses/%d" % HELD),
    Case("door for workers, silent", "shm", ("door",), ("silent",), "join"),
    Case("door for workers, talking", "shm", ("door",), ("talking",), "join"),
    Case("all with shm, both", "shm", ("store", "meeting", "bell"), BOTH, b"0/at"),
    Case("all with tcp, both", "tcp", ("store", "tcp"), BOTH, b"tcp addresses/%d" % HELD),
    Case("all with shm, not held", "shm", ("store", "meeting", "bell"), BOTH, "at once"),
    Case("all with tcp, not held", "tcp", ("store", "tcp"), BOTH, "at once"),
]

Outcome = collections.namedtuple("Outcome", "start rest status output log sent gone most_descriptors descriptors lines")


class Run:
    """One job, with so many strangers of each kind at each socket; 0: none."""

    def __init__(self, case, strangers, bin_, tests, environment):
        self.case, self.strangers = case, strangers
        self.folder = tempfile.mkdtemp(prefix="strangers-")
        self.crowds = [Crowd(kind, 7 + i) for i, kind in enumerate(case.kinds if strangers else ())]
        self.hold = Hold(case.mark) if isinstance(case.mark, bytes) else None
        self.known, self.most, self.began, self.gate, self.held = set(), 0, 0.0, 0.0, 0.0
        port = self.hold.port if self.hold else 0
        self.gone = {}  # by kind: sockets that took no more strangers, and why
        self.newcomer, what = None, "serve" if case.mark == "join" else "play"
        script = (f'echo "$TUTTI_STORE $TUTTI_JOB" > {self.folder}/rank$TUTTI_RANK; [ {port} != 0 ] && '
                  f'[ $TUTTI_RANK = {HELD} ] && export TUTTI_STORE=tcp://127.0.0.1:{port}; '
                  f'ulimit -n 1024; exec {tests}/strangers_probe {self.folder} {what}')
        self.words = [f"{bin_}/tutti", "run", "-np", str(RANKS), "--transport", case.transport, "sh", "-c", script]
        self.environment = {**environment, "TUTTI_CONNECT_TIMEOUT": "300"}  # however long the strangers take to call
        self.join = [f"{tests}/strangers_probe", self.folder, "join"] if case.mark == "join" else None

    def __enter__(self):
        if self.case.mark == "at once":
            self.touch("go")
        self.files = [open(os.path.join(self.folder, name), "w+") for name in ("out", "err")]
        self.began = time.monotonic()
        self.job = subprocess.Popen(self.words, stdout=self.files[0], stderr=self.files[1], env=self.environment,
                                    start_new_session=True)
        if self.join:
            self.newcomer = subprocess.Popen(self.join, stdout=self.files[0], stderr=self.files[1],
                                             env=self.environment)
        return self

    def __exit__(self, *_):
        for crowd in self.crowds:
            crowd.end()
        if self.hold:
            self.hold.close()
        if self.newcomer:
            self.newcomer.kill()
            self.newcomer.wait()
        if self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.job.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.job.pid, signal.SIGKILL)
        self.job.wait()
        for file in self.files:
            file.close()
        shutil.rmtree(self.folder)

    def touch(self, name):
        with open(os.path.join(self.folder, name), "w"):
            pass

    def said_by(self, rank):
        """Where it finds the store, and the job's name."""
        with contextlib.suppress(OSError), open(os.path.join(self.folder, f"rank{rank}")) as file:
            return file.read().split()
        return []

    def text(self, file):
        file.flush()
        with open(file.name) as again:
            return again.read()

    def look(self):
        """Sends the strangers to sockets that have come up."""
        for target in targets_of(self.job.pid) - self.known:
            self.known.add(target)
            if self.join and target.role == "tcp":  # by shared memory, the ranks have no other
                target = target._replace(role="door")
            for crowd in self.crowds if target.role in self.case.roles else ():
                if crowd.kind == "talking" or target.role != "bell":
                    crowd.tell("target", target)
        for pid in processes_below(self.job.pid):
            with contextlib.suppress(OSError):
                if rank_of(pid) >= 0 or pid == self.job.pid:
                    self.most = max(self.most, len(os.listdir(f"/proc/{pid}/fd")))

    def until(self, condition, what, seconds=60, look=0.0):
        """Looks for new sockets every so often."""
        limit, next_look = time.monotonic() + seconds, 0.0
        while not condition():
            if time.monotonic() >= next_look:
                self.look()
                next_look = time.monotonic() + look
            if self.job.poll() is not None or time.monotonic() > limit:
                raise AssertionError(f"{self.case.name}: {what}: not within {seconds} s, or the job has ended "
                                     f"({self.job.poll()})\n{self.text(self.files[0])}{self.text(self.files[1])}")
            time.sleep(0.002)

    def tell(self, what, value=None):
        for crowd in self.crowds:
            crowd.tell(what, value)

    def told(self):
        """Waits until the crowds have sent their shares to the sockets that there are."""
        sent = collections.Counter()
        self.tell("report")
        for crowd in self.crowds:
            self.until(crowd.here.poll, "all strangers have called", 300, look=0.1)
            counts, self.gone[crowd.kind] = crowd.here.recv()
            for target, count in counts.items():
                sent[crowd.kind, target.role] += count
        return sent

    def started(self):
        found = re.search(r"^started ([\d.]+)$", self.text(self.files[0]), re.M)
        return float(found[1]) if found else None

    def hold_back(self):
        """Until the first half have called. Rank and job names are known to those who listen on the wire."""
        self.until(lambda: all(self.said_by(rank) for rank in range(RANKS)), "all ranks begin")
        store, job = self.said_by(0)
        number = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8], "big")
        self.tell("known", {"job": number})
        since = time.monotonic()
        if self.hold:
            host, at = store.removeprefix("tcp://").rsplit(":", 1)
            self.hold.store = (host, int(at))
            self.touch("go")
            self.until(self.hold.holds.is_set, "the late rank is held")
            self.until(lambda: {t.role for t in self.known} >= set(self.case.roles), "the sockets are there")
        if self.join:
            self.until(lambda: os.path.exists(os.path.join(self.folder, "door")), "the door is there")
        for _ in range(10):  # all of them, of all ranks
            self.look()
            time.sleep(0.01)
        # The meeting ends soon after, so most come before.
        self.tell("share", self.strangers * (9 if "meeting" in self.case.roles else 5) // 10)
        self.told()
        self.tell("share", self.strangers)
        if self.hold:
            since = self.hold.since
        self.gate = time.monotonic()
        self.held = self.gate - since
        self.hold.free.set() if self.hold else self.touch("go")

    def play(self):
        if self.case.mark == "at once":
            self.gate = self.began
            self.tell("share", self.strangers)
        else:
            self.hold_back()
        # Where nothing was held, the sockets must be found as they come.
        self.until(self.started, "the first call ends", look=0.02 if self.case.mark == "at once" else 0.1)
        if self.hold:
            self.tell("known", {"instances": self.hold.instances()})
        sent = self.told()
        if self.newcomer and self.newcomer.wait(60) != 0:
            raise AssertionError(f"{self.case.name}: the newcomer failed\n{self.text(self.files[1])}")
        self.tell("leave")
        limit = time.monotonic() + 0.5
        self.until(lambda: time.monotonic() > limit, "the job runs on without strangers")
        self.touch("stop")
        limit = time.monotonic() + 60
        while self.job.poll() is None and time.monotonic() < limit:
            time.sleep(0.002)
        output, log = self.text(self.files[0]), self.text(self.files[1])
        if self.job.poll() is None:
            raise AssertionError(f"{self.case.name}: the job does not end\n{output}{log}")
        own = {int(r): int(n) for r, n in re.findall(r"^rank (\d+) made \d+ calls, has (\d+) desc", output, re.M)}
        started = self.started()
        return Outcome(started - self.began - self.held, started - self.gate, self.job.returncode, output, log, sent,
                       self.gone, self.most, own, log.count("\n"))


def play(case, strangers, bin_, tests, environment):
    """One job with so many strangers of each kind at each socket. Raises AssertionError where it hangs."""
    with Run(case, strangers, bin_, tests, environment) as run:
        return run.play()


def chosen(pattern):
    return [case for case in CASES if fnmatch.fnmatch(case.name, pattern) and
            ("other user" not in case.kinds or os.geteuid() == 0)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--strangers", type=int, default=5000, help="of each kind at each socket")
    parser.add_argument("--repeat", type=int, default=3, help="jobs with and without; the medians are printed")
    parser.add_argument("--build", default=os.path.join(root, "build", "dev"))
    parser.add_argument("--only", default="*", help="cases whose names match this pattern")
    parser.add_argument("--log", action="store_true", help="print what the jobs logged")
    args = parser.parse_args()
    wrong, folders = 0, [os.path.join(args.build, name) for name in ("bin", "tests")]
    print(f"{'socket, strangers':26}{'sent':>8}{'start without':>15}{'with':>11}{'ratio':>7}"
          f"{'let go without':>16}{'with':>11}{'status':>8}"
          f"{'descriptors':>13}{'log lines':>11}", flush=True)
    for case in chosen(args.only):
        quiet, loud = [], []
        try:
            for _ in range(args.repeat):
                quiet.append(play(case, 0, *folders, os.environ))
                loud.append(play(case, args.strangers, *folders, os.environ))
        except AssertionError as error:
            print(f"{case.name:26} failed: {error}", flush=True)
            wrong = 1
            continue
        without, there = (statistics.median(o.start for o in all_) * 1000 for all_ in (quiet, loud))
        rest = [statistics.median(o.rest for o in all_) * 1000 for all_ in (quiet, loud)]
        status = {o.status for o in loud}
        print(f"{case.name:26}{sum(loud[-1].sent.values()):8}{without:12.1f} ms{there:8.1f} ms"
              f"{there / without:7.2f}{rest[0]:13.1f} ms{rest[1]:8.1f} ms"
              f"{','.join(map(str, status)):>8}{max(o.most_descriptors for o in loud):13}"
              f"{max(o.lines for o in loud):11}", flush=True)
        if args.log:
            print("".join(o.log for o in loud), flush=True)
        wrong |= status != {0}
    return wrong


if __name__ == "__main__":
    sys.exit(main())
