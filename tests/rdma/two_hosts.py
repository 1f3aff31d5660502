"""Two guests as two hosts, each with two ranks: shared memory within, RDMA between. Runs in both at once.

    two_hosts.py BIN_FOLDER TESTS_FOLDER        RDMA_GUEST is 0 or 1
"""

import os
import re
import subprocess
import sys
import time

TESTS = sys.argv[2]
GUEST = int(os.environ["RDMA_GUEST"])
PER_HOST, HOSTS = 2, 2


def start(port, *words, **variables):
    """The ranks of this host, in a job of both."""
    started = []
    for local in range(PER_HOST):
        job = {"TUTTI_RANK": str(GUEST * PER_HOST + local), "TUTTI_SIZE": str(PER_HOST * HOSTS),
               "TUTTI_LOCAL_RANK": str(local), "TUTTI_LOCAL_SIZE": str(PER_HOST), "TUTTI_STORE": f"tcp://10.78.0.1:{port}",
               "TUTTI_SECRET": "two guests", "TUTTI_TRANSPORT": "shm,ibverbs", "TUTTI_TUNING": "off", "TUTTI_LOG": "info"}
        started.append(subprocess.Popen([os.path.join(TESTS, words[0]), *words[1:]], env={**os.environ, **job, **variables},
                                        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return started


def ended(what, started, right):
    """Whether all ranks said what is right, by `right(local rank, exit code, out, err)`; prints those that did not."""
    good = True
    for local, process in enumerate(started):
        out, err = process.communicate(timeout=120)
        if not right(local, process.returncode, out, err):
            good = False
            print(f"rank {local} of host {GUEST}, {what}: exit code {process.returncode}\n{out}{err[-2000:]}", flush=True)
    return good


def collectives():
    def right(local, code, out, err):
        expected = "ok\n" if GUEST == 0 and local == 0 else ""
        return code == 0 and out == expected and "by rxe0 port 1, RoCE v2 at 10.78.0." in err

    return ended("collectives", start(4711, "world_probe", "cases", "rest"), right)


def partition():
    """Nothing gets from one host to the other any more: each side names a rank of the other, within the deadline."""
    def right(_, code, out, __):
        found = re.search(r"rank \d+: \d+: .* failed after ([\d.]+) s: rank (\d+) on host guest(\d) has fallen silent", out)
        return code == 0 and found is not None and float(found[1]) < 8 and int(found[3]) == 1 - GUEST

    started = start(4712, "loop_probe", "loop", "1000", TUTTI_TIMEOUT="8")
    for process in started:
        process.stdout.readline()  # the first call is done
    time.sleep(1)
    subprocess.run(["tc", "qdisc", "add", "dev", "eth0", "root", "netem", "loss", "100%"], check=True)
    return ended("partition", started, right)


def main():
    results = [collectives(), partition()]  # in this order: the network stays cut
    print(f"host {GUEST}: {sum(results)} of {len(results)} right", flush=True)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
