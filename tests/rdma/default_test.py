"""Which transport two hosts take by default: RDMA where both have a device, and where not, nothing of it is even opened."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import devices

HERE = devices.PORTS.is_dir() and any(devices.PORTS.iterdir())


class Default(unittest.TestCase):
    def test_rdma_where_there_are_devices_and_no_trace_of_it_where_there_are_none(self):
        # As if each rank were started on a host of its own.
        script = 'export TUTTI_HOST_ID="host$TUTTI_RANK" TUTTI_LOCAL_RANK=0 TUTTI_LOCAL_SIZE=1; exec "$@"'
        started = subprocess.Popen(
            devices.command("run", "-np", 2, "--grace", 20, "bash", "-c", script, "-", os.path.join(devices.TESTS, "loop_probe"), "loop", 100),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**{name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")},
                 "TUTTI_TUNING": "off", "TUTTI_LOG": "info"})
        self.addCleanup(lambda: started.poll() is None and started.kill())
        pids = [int(re.match(r"rank \d is process (\d+)", started.stdout.readline())[1]) for _ in range(2)]
        mapped = [pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in pids]
        os.kill(pids[0], signal.SIGKILL)
        said = started.communicate(timeout=60)[1]
        for maps in mapped:
            self.assertEqual("libtutti_ibverbs" in maps, HERE)
            self.assertEqual("libibverbs" in maps, HERE)
        self.assertEqual(len(re.findall(r"reaches rank \d by \S+ port \d", said)), 2 if HERE else 0, said)
        if not HERE:
            self.assertNotRegex(said, "(?i)rdma|verbs")

    @unittest.skipUnless(HERE, "there is no RDMA device")
    def test_who_has_none_that_can_be_used_is_reached_by_tcp_and_named(self):
        script = ('export TUTTI_HOST_ID="host$TUTTI_RANK" TUTTI_LOCAL_RANK=0 TUTTI_LOCAL_SIZE=1; '
                  '[ "$TUTTI_RANK" = 0 ] || export TUTTI_IB_DEVICE=nothing; exec "$@"')
        done = devices.run(*devices.command("run", "-np", 2), "bash", "-c", script, "-", os.path.join(devices.TESTS, "loop_probe"),
                           "sum", 1000, 3, TUTTI_LOG="info")
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
        self.assertRegex(done.stderr, r"rank 0\] info: ibverbs does not reach rank 1 on \S+: there is no device 'nothing'")
        self.assertRegex(done.stderr, r"rank 1\] info: ibverbs is not used: there is no device 'nothing'")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
