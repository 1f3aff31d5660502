"""Bootstrapping under the real launchers that are installed here: Open MPI, hydra, torchrun, and nobody."""

import os
import re
import shutil
import socket
import subprocess
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

    def test_halves_and_contradictions_are_one_line(self):
        slurm = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}
        for variables, *parts in (
                ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_RANK=1 is set, but OMPI_COMM_WORLD_SIZE is not"),
                (slurm, "SLURM_PROCID=1 is set, but SLURM_NTASKS is not"),
                ({**slurm, "SLURM_NTASKS": "2"}, "SLURM names no hosts", "TUTTI_STORE="),
                ({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "0"}, "MASTER_PORT=0 is no port"),
                ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}, "RANK=2, WORLD_SIZE=2"),
                ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"},
                 "LOCAL_RANK=2, LOCAL_WORLD_SIZE=2 contradict"),
                ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                  "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "several hosts", "mpirun -x TUTTI_STORE"),
                ({"JOB_COMPLETION_INDEX": "1", "TUTTI_SIZE": "2"}, "TUTTI_STORE is not set", "JOB-0.SERVICE"),
                ({"TUTTI_RANK": "1"}, "one of TUTTI_RANK and TUTTI_SIZE")):
            done = run(PROBE, env=clean_environment(**variables))
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), (variables, done.stderr))
            for part in parts:
                self.assertIn(part, done.stderr)

    def test_by_hand(self):
        # TUTTI_RANK and its kin without a launcher: rank 0 serves the store.
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = {"TUTTI_SIZE": "3", "TUTTI_STORE": f"tcp://127.0.0.1:{port}", "TUTTI_SECRET": "4" * 64}
        ranks = [subprocess.Popen([PROBE], env=clean_environment(TUTTI_RANK=str(r), **common), stdout=subprocess.PIPE, text=True)
                 for r in range(3)]
        for rank, process in enumerate(ranks):
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)
            self.assertIn(f"rank {rank} of 3 by hand local 0 of 1 ", out)

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
