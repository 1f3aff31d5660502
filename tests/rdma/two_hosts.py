"""Two guests as two hosts, each with two ranks: shared memory within, RDMA between. Runs in both at once.

    two_hosts.py BIN_FOLDER TESTS_FOLDER        RDMA_GUEST is 0 or 1
"""

import os
import subprocess
import sys

TESTS = sys.argv[2]
GUEST = int(os.environ["RDMA_GUEST"])
PER_HOST, HOSTS = 2, 2


def play(port, *words):
    """The ranks of this host, in a job of both; what they say, and whether all went well."""
    started = []
    for local in range(PER_HOST):
        rank = GUEST * PER_HOST + local
        job = {"TUTTI_RANK": str(rank), "TUTTI_SIZE": str(PER_HOST * HOSTS), "TUTTI_LOCAL_RANK": str(local),
               "TUTTI_LOCAL_SIZE": str(PER_HOST), "TUTTI_STORE": f"tcp://10.78.0.1:{port}", "TUTTI_SECRET": "two guests",
               "TUTTI_TRANSPORT": "shm,ibverbs", "TUTTI_TUNING": "off", "TUTTI_LOG": "info"}
        started.append(subprocess.Popen([os.path.join(TESTS, words[0]), *words[1:]], env={**os.environ, **job}, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    right = True
    for local, process in enumerate(started):
        out, err = process.communicate(timeout=120)
        expected = "ok\n" if GUEST == 0 and local == 0 else ""
        crossing = "by rxe0 port 1, RoCE v2 at 10.78.0." in err
        if process.returncode != 0 or out != expected or not crossing:
            right = False
            print(f"rank {local} of host {GUEST}: {words}: exit code {process.returncode}\n{out}{err[-2000:]}", flush=True)
    return right


def main():
    jobs = [("world_probe", "cases", "rest")]
    results = [play(4711 + number, *words) for number, words in enumerate(jobs)]
    print(f"host {GUEST}: {sum(results)} of {len(jobs)} right", flush=True)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
