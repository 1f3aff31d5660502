"""How fast messages go over RDMA beside other programs on the same device: perftest, and Gloo's own ring over ibverbs; and
what it brings to have memory registered once (Communicator::allocate) instead of for each message.

    tests/rdma/run --build BUILD -- python3 -B tests/rdma/compare.py BUILD/bin BUILD/tests [ROUNDS]

Two ranks on the first device. In a guest processors and devices are emulated, so that times mean nothing by
themselves: read the ratios, which are taken from the medians of alternating rounds.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import devices

ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
DEVICE, GID, PORT = "rxe0", "1", 18515


def perftest(program, column, *options):
    """A figure out of the table that the client prints."""
    words = ["timeout", "30", program, "-F", "-d", DEVICE, "-x", GID, "-p", str(PORT), *options]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listening = f":{PORT:04X} 00000000:0000 0A"
    while not any(listening in open(table).read().replace("0" * 24, "") for table in ("/proc/net/tcp", "/proc/net/tcp6")):
        time.sleep(0.05)
    client = devices.run(*words, "127.0.0.1")
    server.wait()
    lines = client.stdout.splitlines()
    head = next((i for i, line in enumerate(lines) if line.strip().startswith("#bytes")), None)
    if head is None:
        sys.exit(f"{program} failed: {client.stdout}{client.stderr}")
    return float(lines[head + 1].split()[column])


def loop(*words):
    done = devices.ranks(2, "loop_probe", *words, TUTTI_IB_DEVICE=DEVICE)
    return float(done.stdout)


def gloo_ring(count, times):
    with tempfile.TemporaryDirectory() as folder:
        started = [subprocess.Popen([os.path.join(devices.TESTS, "gloo_ring_probe"), str(rank), "2", folder, DEVICE, GID,
                                     str(count), str(times)], stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
        return float([process.communicate(timeout=120)[0] for process in started][0])


# What is compared, its unit, ours, theirs, whether more is better, and the aim: ours by theirs, or theirs by ours.
ROWS = [
    ("8 B one way, to ib_send_lat", "us", lambda: loop("there", 8, 1000),
     lambda: perftest("ib_send_lat", 4, "-s", "8", "-n", "1000"), lambda ours, theirs: ours / theirs, "at most 1.5"),
    ("1 MiB messages, to ib_write_bw", "MiB/s", lambda: loop("stream", 1 << 20, 60) * 1e6 / 2**20,
     lambda: perftest("ib_write_bw", 3, "-s", "1048576", "-n", "60", "-t", "4", "-Q", "1"),
     lambda ours, theirs: ours / theirs, "at least 0.85"),
    ("1 MiB messages, registered once", "MiB/s", lambda: loop("flow", 1 << 20, 60) * 1e6 / 2**20,
     lambda: loop("stream", 1 << 20, 60) * 1e6 / 2**20,  # registered for each message
     lambda ours, theirs: ours / theirs, "no aim"),
    ("allreduce of 4 KiB, Gloo to ours", "us", lambda: loop("time", 1024, 300), lambda: gloo_ring(1024, 300),
     lambda ours, theirs: theirs / ours, "at least 2"),
    ("allreduce of 1 MiB, Gloo to ours", "us", lambda: loop("time", 1 << 18, 15), lambda: gloo_ring(1 << 18, 15),
     lambda ours, theirs: theirs / ours, "at least 1.3"),
]


def main():
    for what, unit, ours, theirs, ratio, aim in ROWS:
        pairs = [(ours(), theirs()) for _ in range(ROUNDS)]
        mine, other = (statistics.median(column) for column in zip(*pairs))
        ratios = sorted(ratio(*pair) for pair in pairs)
        print(f"{what:34} ours {mine:9.1f} {unit:5} theirs {other:9.1f}   ratio {ratio(mine, other):5.2f} "
              f"({ratios[0]:.2f} .. {ratios[-1]:.2f}), {aim}", flush=True)


if __name__ == "__main__":
    main()
