"""Ranks that end before they have joined the others: who waits for them is told at once, who does not is left alone.

TUTTI_CONNECT_TIMEOUT is ten minutes here, so a test that waits for it fails by the limit of processes.run()."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

from processes import PROBE, TESTS, TUTTI, clean_environment, run, torchrun

COLLECTIVES = os.path.join(TESTS, "collectives_probe")
PATIENT = {"TUTTI_CONNECT_TIMEOUT": "600"}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
BEFORE = "before it joined the others, who wait for it: see what it printed"
ADVICE = "start fewer ranks if some have nothing to do"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class UnderTuttiRun(unittest.TestCase):
    def shell(self, ranks, script, *flags, **variables):
        return run(TUTTI, "run", "-np", ranks, *flags, "sh", "-c", script, env=clean_environment(**PATIENT, **variables))

    def assert_told(self, done, pattern, times):
        """Each of the ranks that wait says it once, in one line."""
        told = [line for line in done.stderr.splitlines() if BEFORE in line]
        self.assertEqual(len(told), times, done.stderr)
        for line in told:
            self.assertRegex(line, rf"^{pattern} {BEFORE}")
            self.assertIn(ADVICE, line)

    def test_a_rank_that_exits_with_0(self):
        for transport in ("", "tcp"):
            for rank in (0, 2):  # rank 0 is the one whose settings the others want
                done = self.shell(4, f"[ $TUTTI_RANK = {rank} ] || exec {COLLECTIVES} --who",
                                  *(["--transport", transport] if transport else []))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assert_told(done, rf"rank {rank} \(pid \d+\) exited with code 0", 3)

    def test_beside_a_rank_that_is_slow(self):
        # Rank 1 is not there yet when rank 2 ends, and would not be before run() gives up.
        for transport in ("shm", "tcp"):
            with tempfile.TemporaryDirectory() as folder:
                for store in ([], ["--store", f"file://{folder}"]):
                    done = self.shell(4, f"[ $TUTTI_RANK = 1 ] && exec sleep 600; [ $TUTTI_RANK = 2 ] || exec {COLLECTIVES} --who",
                                      "--transport", transport, *store)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assert_told(done, r"rank 2 \(pid \d+\) exited with code 0", 2)

    def test_a_rank_that_fails_while_the_others_go_on(self):
        for script, how in (("exit 3", "exited with code 3"), ("kill -9 $$", r"was killed by signal 9 \(SIGKILL\)")):
            done = self.shell(3, f"[ $TUTTI_RANK = 1 ] && {script}; exec {COLLECTIVES} --who", "--keep-going")
            self.assertNotEqual(done.returncode, 0)
            self.assert_told(done, rf"rank 1 \(pid \d+\) {how}", 2)

    def test_a_rank_that_leaves_between_two_programs(self):
        done = self.shell(3, f"{COLLECTIVES} --who && [ $TUTTI_RANK != 1 ] && exec {COLLECTIVES} --who; exit $?",
                          "--grace", "30")
        self.assertEqual(sorted(re.findall(r"rank \d of 3", done.stdout)), ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"])
        self.assert_told(done, r"rank 1 \(pid \d+\) exited with code 1", 2)

    def test_a_program_that_ends_in_a_script_that_goes_on(self):
        # The launcher knows nothing of it, but the store does.
        done = self.shell(3, f"[ $TUTTI_RANK = 2 ] && {{ {PROBE} leaves; exec sleep 600; }}; exec {COLLECTIVES} --who")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_told(done, r"rank 2 \(pid \d+ on \S+\) has ended", 2)

    def test_several_hosts(self):
        done = run(TUTTI, "run", "--hosts", "a:2,b:2", "--remote-start", "env ON_HOST={host}", "sh", "-c",
                   f"[ $TUTTI_RANK = 3 ] || exec {COLLECTIVES} --who", env=clean_environment(**PATIENT))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_told(done, r"rank 3 \(b, pid \d+\) exited with code 0", 3)

    def test_a_store_of_the_user(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.shell(3, f"[ $TUTTI_RANK = 1 ] || exec {COLLECTIVES} --who", "--store", f"file://{folder}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_told(done, r"rank 1 \(pid \d+\) exited with code 0", 2)

    def test_who_waits_for_nobody_is_left_alone(self):
        done = self.shell(4, "true")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        # One rank does something else and ends; the others are a job of their own, with numbers of their own.
        done = self.shell(4, "[ $TUTTI_RANK = 0 ] && exit 0; [ $TUTTI_RANK = 1 ] && sleep 0.5;"
                          f" r=$((TUTTI_RANK - 1)); TUTTI_RANK=$r TUTTI_SIZE=3 TUTTI_LOCAL_RANK=$r TUTTI_LOCAL_SIZE=3 exec {COLLECTIVES} --who")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"rank \d of 3 by tutti run", done.stdout)), 3)

    def test_ranks_that_end_at_different_times(self):
        done = self.shell(4, f"{COLLECTIVES} --who; sleep 0.$TUTTI_RANK")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class ElsewhereTheStoreTells(unittest.TestCase):
    """Launchers say nothing; a rank that has opened the store is missed when its process ends."""

    def assert_told(self, text, rank):
        self.assertRegex(text, rf"rank {rank} \(pid \d+ on \S+\) has ended {BEFORE}")
        self.assertIn(ADVICE, text)

    def by_hand(self, leaving=1, ranks=3, rank_is="TUTTI_RANK", **variables):
        common = clean_environment(**variables, **PATIENT)
        started = [subprocess.Popen([PROBE, "leaves"] if rank == leaving else [COLLECTIVES, "--who"], text=True,
                                    env={**common, rank_is: str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                   for rank in range(ranks)]
        for process in started:
            self.addCleanup(lambda p=process: p.poll() is None and p.kill())
        said = [process.communicate(timeout=60)[1] for process in started]
        self.assertEqual([process.returncode for process in started], [int(rank != leaving) for rank in range(ranks)], said)
        for rank in set(range(ranks)) - {leaving}:
            self.assert_told(said[rank], leaving)

    def test_over_tcp(self):
        self.by_hand(TUTTI_SIZE="3", TUTTI_STORE=f"tcp://127.0.0.1:{free_port()}", TUTTI_SECRET="4" * 64)

    def test_with_the_variables_of_torchrun(self):
        self.by_hand(rank_is="RANK", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))

    def test_in_a_folder(self):
        for leaving in (0, 1):
            with tempfile.TemporaryDirectory() as folder:
                self.by_hand(leaving, TUTTI_SIZE="3", TUTTI_STORE=f"file://{folder}", TUTTI_SECRET="4" * 64)

    def test_torchrun(self):
        script = f'[ $RANK = 1 ] && exec "{PROBE}" leaves; exec "{COLLECTIVES}" --who'
        done = run(torchrun(), "--standalone", "--nproc-per-node", 3, "--no-python", "sh", "-c", script,
                   env=clean_environment(**PATIENT))
        self.assertNotEqual(done.returncode, 0)
        self.assert_told(done.stderr, 1)

    def test_mpirun(self):
        for mpirun, variable in (("mpirun.openmpi", "OMPI_COMM_WORLD_RANK"), ("mpiexec.hydra", "PMI_RANK")):
            if not shutil.which(mpirun):
                continue
            with self.subTest(mpirun):
                script = f'[ ${variable} = 1 ] && exec "{PROBE}" leaves; exec "{COLLECTIVES}" --who'
                done = run(mpirun, "-n", 3, "sh", "-c", script, env=clean_environment(**AS_ROOT, **PATIENT))
                self.assertNotEqual(done.returncode, 0)
                self.assert_told(done.stdout + done.stderr, 1)

    def test_nobody_can_tell(self):
        # Ranks that were never started: those who wait name them when their time is over.
        common = clean_environment(TUTTI_SIZE="5", TUTTI_STORE=f"tcp://127.0.0.1:{free_port()}", TUTTI_SECRET="4" * 64,
                                   TUTTI_CONNECT_TIMEOUT="0.5")
        done = run(COLLECTIVES, "--who", env={**common, "TUTTI_RANK": "0"})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?m)^ranks 1-4 have not joined the others in 0\.5 s: see whether all ranks started")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
