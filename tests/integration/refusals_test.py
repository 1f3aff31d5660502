"""Systems that refuse: system calls that a container's filter forbids, and networks without a loopback interface."""

import errno
import os
import subprocess
import sys
import tempfile
import unittest

from processes import TESTS, TUTTI, clean_environment, run

COLLECTIVES = os.path.join(TESTS, "collectives_probe")
REFUSING = os.path.join(TESTS, "refusing_probe")
# What a rank waits for at most where a network does not work: longer than run() waits.
PATIENT = {"TUTTI_CONNECT_TIMEOUT": "600"}


class SystemCalls(unittest.TestCase):
    def test_jobs_do_without(self):
        for names in ("getrandom", "populate", "pidfd", "copies", "affinity", "getrandom,populate,pidfd,copies,affinity"):
            for error in (errno.EPERM, errno.ENOSYS, errno.EINVAL):
                for transport in ("shm", "tcp"):
                    done = run(REFUSING, error, names, TUTTI, "run", "-np", "2", "--transport", transport, COLLECTIVES)
                    if done.returncode == 77:
                        self.skipTest(done.stderr)
                    self.assertEqual(done.returncode, 0, (names, errno.errorcode[error], transport, done.stderr))


class Networks(unittest.TestCase):
    def inside(self, preparation, *words, **variables):
        """Runs words in a network of their own, prepared by a shell."""
        if subprocess.run(["unshare", "--net", "sh", "-c", preparation], capture_output=True, timeout=60).returncode != 0:
            self.skipTest("no network namespace can be made and prepared here")
        return run("unshare", "--net", "sh", "-c", preparation + '; exec "$@"', "sh", *words, env=clean_environment(**PATIENT, **variables))

    def test_without_a_loopback_interface(self):
        advice = "cannot be reached: the loopback interface of this host or container is down; raise it (ip link set lo up)"
        done = self.inside("true", TUTTI, "run", "-np", "2", COLLECTIVES, "--who")
        self.assertEqual(done.returncode, 1)
        self.assertIn(advice, done.stderr)
        torchrun = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
        for rank in ("0", "1"):
            done = self.inside("true", COLLECTIVES, "--who", **{**torchrun, "RANK": rank, "LOCAL_RANK": rank})
            self.assertEqual(done.returncode, 1)
            self.assertIn(advice, done.stderr)

    def test_a_network_that_leads_nowhere(self):
        done = self.inside("ip link set lo up", COLLECTIVES, "--who", TUTTI_RANK="1", TUTTI_SIZE="2", TUTTI_STORE="tcp://10.9.8.7:1234",
                           TUTTI_SECRET="4" * 64)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no network of this host leads to the store at tcp://10.9.8.7:1234: see `ip route`", done.stderr)

    def test_without_a_loopback_interface_shared_memory_is_enough(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.inside("true", TUTTI, "run", "-np", "2", "--store", f"file://{folder}", COLLECTIVES)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_ipv6_alone(self):
        six_alone = "ip link set lo up && ip address delete 127.0.0.1/8 dev lo"
        for transport in ("shm", "tcp"):
            done = self.inside(six_alone, TUTTI, "run", "-np", "2", "--transport", transport, COLLECTIVES)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.inside(six_alone, "sh", "-c", f"for RANK in 0 1; do RANK=$RANK LOCAL_RANK=$RANK {COLLECTIVES} --who & done; wait",
                           WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="29500", TUTTI_SECRET="4" * 64)
        self.assertEqual((done.returncode, done.stdout.count("of 2 by torchrun")), (0, 2), done.stderr)

    def test_excluded_interfaces(self):
        two = "ip link set lo up && ip link add bridge0 type dummy && ip address add 10.5.5.1/24 dev bridge0 && ip link set bridge0 up"
        for excluded, used, spared in (("^bridge0", "127.0.0.1", "10.5.5.1"), ("^lo,docker0", "10.5.5.1", "127.0.0.1")):
            done = self.inside(two, TUTTI, "run", "-np", "2", "--transport", "tcp", "--iface", excluded, "--log", "debug", COLLECTIVES)
            self.assertEqual(done.returncode, 0, done.stderr)
            routes = [line for line in done.stderr.splitlines() if "tcp" in line and "store" not in line]
            self.assertTrue(any(used in line for line in routes), done.stderr)
            self.assertFalse(any(spared in line for line in routes), done.stderr)
        done = self.inside(two, TUTTI, "run", "-np", "2", "--transport", "tcp", "--iface", "^lo,bridge0", COLLECTIVES)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("iface: '^lo,bridge0' leaves no interface of this host. It has", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
