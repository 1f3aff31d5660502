"""What starts ranks on real clusters, each starting the same program with 4 ranks: on one host, and on two.

The program finds its rank, local rank and meeting point in what the engine gives it, and plays every collective.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from hosts_lab import Lab, Refused
from processes import TESTS, clean_environment, torchrun
from slurm_lab import SlurmLab

PROBE = [os.path.join(TESTS, "collectives_probe"), "--who"]
RANKS, HOSTS = 4, 2
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


class Engine(unittest.TestCase):
    def program(self, name):
        if shutil.which(name) is None:
            self.skipTest(f"{name} is not installed")
        return name

    def enter(self, thing):
        try:
            thing.__enter__()
        except Refused as why:
            self.skipTest(str(why))
        self.addCleanup(thing.__exit__)
        return thing

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def agent(self):
        """What MPI launchers call as "AGENT HOST COMMAND...": each host knows its own name."""
        path = os.path.join(self.folder(), "agent")
        with open(path, "w") as file:
            file.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
                       'exec ip netns exec "$host" unshare --uts sh -c \'hostname "$0"; exec sh -c "$1"\' "$host" "$*"\n')
        os.chmod(path, 0o700)
        return path

    def on_first(self, lab, words, **options):
        """Runs words on the lab's first host, which knows its name too."""
        return lab.run(0, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', lab.name(0), *words, timeout=100, **options)

    def run_here(self, *words, **variables):
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=100, env=clean_environment(**variables))

    def check(self, done, launcher, hosts, local_sizes=None):
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        sizes = local_sizes or [RANKS // hosts] * hosts
        wanted = [(str(rank), str(local), str(size)) for rank, (local, size) in
                  enumerate((local, size) for size in sizes for local in range(size))]
        found = re.findall(rf"rank (\d+) of {RANKS} by {launcher} local (\d+) of (\d+)\n", done.stdout)
        self.assertEqual(sorted(found), wanted, text)
        self.assertRegex(done.stdout, rf"played \d+ calls by 0 algorithms on {RANKS} ranks of {hosts} hosts\n")


class Slurm(Engine):
    def setUp(self):
        self.lab = self.enter(Lab(HOSTS))
        self.slurm = self.enter(SlurmLab(self.lab))

    def test_two_nodes(self):
        done = self.slurm.srun("-N2", "-n4", "--ntasks-per-node=2", *PROBE, env=clean_environment(TUTTI_SECRET="6" * 64), timeout=100)
        self.check(done, "SLURM", 2)
        self.assertEqual(done.stderr, "")

    def test_one_node(self):
        self.check(self.slurm.srun("-N1", "-n4", *PROBE, env=clean_environment(), timeout=100), "SLURM", 1)

    def test_uneven_nodes_and_two_steps_at_once(self):
        script = 'srun -N2 -n4 -m plane=3 "$@" & srun --overlap -N2 -n4 -m plane=3 "$@"; code=$?; wait $! && exit $code'
        done = self.slurm.run("salloc", "-Q", "-N2", "-n4", "-O", "sh", "-c", script, "sh", *PROBE[:1], env=clean_environment(), timeout=100)
        self.assertEqual((done.returncode, done.stdout.count(f"on {RANKS} ranks of 2 hosts\n")), (0, 2), done.stdout + done.stderr)


class OpenMpi(Engine):
    def test_one_host(self):
        done = self.run_here(self.program("mpirun.openmpi"), "-n", RANKS, *PROBE, TMPDIR=self.folder(), **AS_ROOT)
        self.check(done, "Open MPI", 1)

    def two_hosts(self, *flags, **variables):
        mpirun, lab = self.program("mpirun.openmpi"), self.enter(Lab(HOSTS))
        hosts = ",".join(f"{name}:{RANKS // HOSTS}" for name in lab.names())
        words = [mpirun, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.agent(), "--mca", "oob_tcp_if_include", "common0", "--host",
                 hosts, "--map-by", "slot", "--bind-to", "none", *flags, *PROBE]
        return self.on_first(lab, map(str, words), env=clean_environment(TMPDIR=self.folder(), **AS_ROOT, **variables))

    def test_two_hosts(self):
        done = self.two_hosts("-x", "TUTTI_STORE", "-x", "TUTTI_SECRET", TUTTI_STORE="tcp://10.88.0.1:20099", TUTTI_SECRET="6" * 64)
        self.check(done, "Open MPI", 2)

    def test_two_hosts_without_a_meeting_point(self):
        done = self.two_hosts()
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("Open MPI runs this job on several hosts and names no meeting point: set TUTTI_STORE=", done.stderr)
        self.assertIn("mpirun -x TUTTI_STORE", done.stderr)


class Mpich(Engine):
    def test_one_host(self):
        self.check(self.run_here(self.program("mpiexec.hydra"), "-n", RANKS, *PROBE), "hydra", 1)

    def test_two_hosts(self):
        mpiexec, lab = self.program("mpiexec.hydra"), self.enter(Lab(HOSTS))
        words = [mpiexec, "-launcher", "rsh", "-launcher-exec", self.agent(), "-iface", "common0", "-hosts", ",".join(lab.names()),
                 "-ppn", str(RANKS // HOSTS), "-n", str(RANKS), *PROBE]
        self.check(self.on_first(lab, words, env=clean_environment()), "hydra", 2)


class Torchrun(Engine):
    def setUp(self):
        self.torchrun = torchrun()

    def test_one_host(self):
        self.check(self.run_here(self.torchrun, "--standalone", "--nproc-per-node", RANKS, "--no-python", *PROBE), "torchrun", 1)

    def test_two_hosts(self):
        lab = self.enter(Lab(HOSTS))
        done = lab.everywhere(lambda i: [self.torchrun, "--nnodes", HOSTS, "--node-rank", i, "--nproc-per-node", RANKS // HOSTS,
                                         "--master-addr", lab.address(0), "--master-port", "29500", "--no-python", *PROBE],
                              env=clean_environment(TUTTI_SECRET="6" * 64))
        together = subprocess.CompletedProcess([], max(one.returncode for one in done), "".join(one.stdout for one in done), "")
        self.check(together, "torchrun", 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
