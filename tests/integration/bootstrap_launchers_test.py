"""Bootstrapping under the real launchers that are installed here: Open MPI, hydra, torchrun, and nobody."""

import os
import re
import shutil
import socket
import sys
import unittest

from processes import PROBE, clean_environment, run, torchrun

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def program(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise unittest.SkipTest(f"{names[0]} is not installed")


class Launchers(unittest.TestCase):
    def assert_met(self, done, launcher, ranks, warnings=0):
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.findall(rf"rank (\d+) of {ranks} by {launcher} local (\d+) of {ranks} secret ([0-9a-f]{{64}}) "
                           rf"sum {ranks * (ranks + 1) // 2}\n", done.stdout)
        self.assertEqual(sorted(int(rank) for rank, _, _ in found), list(range(ranks)), done.stdout)
        self.assertEqual(len({secret for _, _, secret in found}), 1)
        self.assertEqual(done.stderr.count("warning"), warnings, done.stderr)

    def test_open_mpi(self):
        mpirun = program("mpirun.openmpi")
        for ranks in (1, 2, 5):
            self.assert_met(run(mpirun, "-n", ranks, PROBE, env=clean_environment(**AS_ROOT)), "Open MPI", ranks)

    def test_open_mpi_leaves_nothing(self):
        mpirun = program("mpirun.openmpi")
        env = clean_environment(**AS_ROOT, TUTTI_LOG="info")
        done = run(mpirun, "-n", 2, PROBE, env=env)
        place = re.search(r"meeting at file://(\S+)", done.stderr)
        self.assertTrue(place, done.stderr)
        self.assertFalse(os.path.exists(place.group(1)))

    def test_open_mpi_with_a_store(self):
        mpirun = program("mpirun.openmpi")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        env = clean_environment(**AS_ROOT, TUTTI_STORE=f"tcp://127.0.0.1:{port}", TUTTI_SECRET="5" * 64)
        self.assert_met(run(mpirun, "-n", 3, PROBE, env=env), "Open MPI", 3)

    def test_hydra(self):
        mpiexec = program("mpiexec.hydra")
        for ranks in (1, 2, 5):
            self.assert_met(run(mpiexec, "-n", ranks, PROBE), "hydra", ranks)

    def test_hydra_twice(self):
        # PMI can be spoken once; the first store is still there, and is used again.
        done = run(program("mpiexec.hydra"), "-n", 2, PROBE, "twice")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("sum 3\n"), 4)

    def test_torchrun(self):
        for ranks in (2, 4):
            done = run(torchrun(), "--standalone", "--nproc-per-node", ranks, "--no-python", PROBE)
            self.assert_met(done, "torchrun", ranks, warnings=1)  # it gives no secret, and that is said once

    def test_torchrun_with_a_secret(self):
        env = clean_environment(TUTTI_SECRET="7" * 64)
        self.assert_met(run(torchrun(), "--standalone", "--nproc-per-node", 3, "--no-python", PROBE, env=env), "torchrun", 3)

    def test_alone(self):
        self.assert_met(run(PROBE), "alone", 1)

    def test_conflict(self):
        env = clean_environment(RANK="1", WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="29500",
                                OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
        done = run(PROBE, env=env)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("RANK=1, WORLD_SIZE=2", done.stderr)
        self.assertIn("OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=2", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
