"""What the RDMA tests share: where the programs are, whether there is a device, its counters, ranks started by tutti run."""

import os
import pathlib
import subprocess
import sys
import unittest

BIN, TESTS = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")
THIN = "TUTTI_TEST_THIN" in os.environ  # a sanitizer watches, on an emulated processor
PORTS = pathlib.Path("/sys/class/infiniband")


def command(*words):
    return [os.path.join(BIN, "tutti"), *map(str, words)]


def run(*words, timeout=120, **variables):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "TUTTI_TUNING": "off", **variables})


def ranks(count, *words, transport="ibverbs", **variables):
    """Runs a program of the tests' folder on so many ranks."""
    program = os.path.join(TESTS, words[0])
    return run(*command("run", "-np", count), program, *words[1:], TUTTI_TRANSPORT=transport, **variables)


def on_hosts(hosts, *words, **variables):
    """The same with a rank for each letter of `hosts`; equal letters share a host, and so memory."""
    script = 'TUTTI_HOST_ID="${0:$TUTTI_RANK:1}" exec "$@"'
    program = os.path.join(TESTS, words[0])
    return run(*command("run", "-np", len(hosts)), "bash", "-c", script, hosts, program, *words[1:],
               TUTTI_TRANSPORT="shm,ibverbs", **variables)


def several():
    return len(list(PORTS.iterdir())) > 1


def each_on_its_own(program, *words):
    """A rank's command: even ranks use the first device, odd ones the second."""
    script = 'TUTTI_IB_DEVICE="rxe$((TUTTI_RANK % 2))" exec "$0" "$@"'
    return ["bash", "-c", script, os.path.join(TESTS, program), *map(str, words)]


def counters(device="rxe0"):
    folder = PORTS / device / "ports" / "1" / "hw_counters"
    return {one.name: int(one.read_text()) for one in folder.iterdir() if one.name != "lifespan"}


def repairs():
    """How often the first two devices have had to repeat something, or to ask for it again."""
    names = ("completer_retry_err", "out_of_seq_request", "rcvd_seq_err", "duplicate_request")
    return sum(counters(device)[name] for device in ("rxe0", "rxe1") for name in names)


def main():
    found = run(*command("info")).stdout
    line = next((text for text in found.splitlines() if text.startswith("ibverbs")), "ibverbs was not built")
    if line.split()[2] != "yes":
        if "RDMA_GUEST" in os.environ:  # which has been booted for its devices
            sys.exit(f"the guest has no RDMA device that can be used: {line}")
        print(f"skipped: {line}\n(tests/rdma/run boots a guest that has RDMA devices)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
