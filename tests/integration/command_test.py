"""The `tutti` command itself: version, help, wrong words and flags, programs named tutti-X."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

BIN, TESTS = sys.argv[1], sys.argv[2]
TUTTI = os.path.join(BIN, "tutti")


def tutti(*words, env=None):
    return subprocess.run([TUTTI, *words], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})})


class Command(unittest.TestCase):
    def assert_usage_error(self, done, *parts):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_version(self):
        self.assertRegex(tutti("--version").stdout, r"^tutti \d+\.\d+\.\d+\n$")

    def test_help_lists_commands(self):
        done = tutti("help")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\n  run +\S")
        self.assertEqual(tutti("--help").stdout, done.stdout)

    def test_help_of_one_command(self):
        done = tutti("help", "run")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--tag-output", done.stdout)
        self.assertEqual(tutti("run", "--help").stdout, done.stdout)

    def test_no_command(self):
        self.assert_usage_error(tutti(), "tutti help")

    def test_unknown_command_suggests_the_nearest(self):
        self.assert_usage_error(tutti("rum"), "'rum'", "did you mean 'run'?")
        self.assert_usage_error(tutti("xyzzy"), "'xyzzy'", "tutti-xyzzy")
        self.assert_usage_error(tutti("../run"), "'../run'")

    def test_training_that_is_not_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(TUTTI, folder)
            done = subprocess.run([alone, "train", "--help"], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PATH": folder})
            self.assert_usage_error(done, "'tutti-train'", "LibTorch", "tutti-training")

    def test_unknown_flag_suggests_the_nearest(self):
        self.assert_usage_error(tutti("--versoin"), "'--versoin'")
        self.assert_usage_error(tutti("run", "--tag-outptu", "-np", "1", "true"), "'--tag-outptu'", "'--tag-output'")
        self.assert_usage_error(tutti("run", "-np", "1", "--lane-byte", "4K", "true"), "'--lane-byte'", "'--lane-bytes'")

    def test_values_that_do_not_parse(self):
        self.assert_usage_error(tutti("run", "-np", "two", "true"), "two")
        self.assert_usage_error(tutti("run", "-np", "1", "--lane-bytes", "many", "true"), "lane_bytes", "many")

    def test_a_wrong_value_is_not_blamed_on_the_program(self):
        for flags, part in (("--map-by core -np 2", "--map-by: core not in {slot,node}"), ("-np2", "--np: Value p2"),
                            ("-np 2 --grace x", "--grace: Value x"), ("--time-limit -1 -np 2", "--time-limit: Value -1"),
                            ("-np 2 --grace", "--grace: Value sh"), ("-np 2 -np 3", "--np: ")):
            self.assert_usage_error(tutti("run", *flags.split(), "sh", "-c", "echo hi"), f"tutti run: {part}")

    def test_one_dash_as_mpirun_has_it(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("localhost slots=2\n")
            file.flush()
            for flags in (("-hostfile", file.name), ("-machinefile", file.name), (f"-hostfile={file.name}",), ("-host", "localhost:2"),
                          ("-hosts", "localhost:2"), ("-H", "localhost:2"), ("-np", "2", "-map-by", "slot", "-oversubscribe")):
                done = tutti("run", *flags, "echo", "-hostfile", "-np")
                self.assertEqual((done.returncode, done.stdout), (0, "-hostfile -np\n" * 2), (flags, done.stderr))
        self.assert_usage_error(tutti("run", "-hostfil", "hosts", "-np", "2", "true"), "'--hostfil'", "'--hostfile'")
        self.assert_usage_error(tutti("run", "-machinefil", "hosts", "-np", "2", "true"), "'-machinefil'", "'--machinefile'")

    def test_several_programs(self):
        words = ("echo", "a", ":", "-np", "1", "echo", "b")
        for flag in ("-np", "-n", "--np=1", "-host", "-x"):
            self.assert_usage_error(tutti("run", "-np", "1", *words[:3], flag, *words[4:]), f"': {flag}'", "does not start several programs",
                                    "TUTTI_RANK")
        for given, said in ((("-np", "1", "--", *words), "a : -np 1 echo b\n"), (("-np", "1", "echo", ":", "-name", ":"), ": -name :\n")):
            done = tutti("run", *given)
            self.assertEqual((done.returncode, done.stdout), (0, said), done.stderr)

    def test_info_says_what_each_backend_can_do(self):
        lines = [line for line in tutti("info", "--algorithms").stdout.splitlines()[1:]]
        states = {"available", "unavailable", "unimplemented"}
        cells = [line.split(None, 6) for line in lines]
        for cell in cells:
            self.assertEqual(set(cell[2:6]) - states, set(), cell)
            self.assertEqual(cell[2], cell[3], "sync and async are one call")
            self.assertTrue(cell[2] == "available" or len(cell) > 6, f"no reason: {cell}")
        self.assertIn(["allreduce", "planned/ring", "available"], [cell[:3] for cell in cells])
        self.assertEqual(len(cells), len({(cell[0], cell[1]) for cell in cells}))

    def rows(self, **env):
        """Of `tutti info --algorithms`: (collective, target): (state for cpu, state for cuda, note)."""
        shown = tutti("info", "--algorithms", env=env).stdout.splitlines()[1:]
        cells = [(line.split(None, 6) + [""])[:7] for line in shown]
        return {(cell[0], cell[1]): (cell[2], cell[4], cell[6]) for cell in cells}

    def test_info_says_what_goes_through_staged(self):
        kinds = ["allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "gather", "scatter", "alltoall"]
        fake = {"TUTTI_MODULE_PATH": os.path.join(TESTS, "modules"), "TUTTI_ACCELERATOR": "fake"}
        for env, state, reason in (({"TUTTI_ACCELERATOR": "none"}, "unavailable", "no device: the setting accelerator is none"),
                                   (fake, "available", "device memory by way of the host")):
            rows = self.rows(**env)
            for kind in kinds:
                cpu, cuda, note = rows[kind, "staged"]
                self.assertEqual((cpu, cuda), ("unimplemented", state), kind)
                self.assertIn(reason, note)
            for (kind, target), (cpu, cuda, note) in rows.items():
                if target.split("/")[0] in ("planned", "shm"):
                    self.assertEqual(cuda, state if kind in kinds else "unimplemented", (kind, target))
                    self.assertEqual(kind in kinds, "on GPU buffers by staged" in note, note)
                if target.split("/")[0] in ("gloo", "mpi"):
                    self.assertNotEqual(cuda, "available", (kind, target))
            self.assertEqual(rows["barrier", "staged"][:2], ("unimplemented", "unimplemented"))

    def test_info_says_why_a_part_is_not_built(self):
        shown = tutti("info").stdout
        self.assertRegex(shown, r"\npart +built")
        self.assertRegex(shown, r"\ntorch +(yes|no) +\S")

    def test_info_shows_no_folder_of_the_machine_that_built_it(self):
        parts = tutti("info").stdout.split("\npart ")[1]
        self.assertIn("\n", parts)
        self.assertNotRegex(parts, r"[\s(,]/\S")

    def test_info_says_that_there_is_no_device(self):
        shown = tutti("info", env={"CUDA_VISIBLE_DEVICES": ""}).stdout
        if not re.search(r"\ncuda +yes ", shown):
            self.skipTest("CUDA is not built in")
        self.assertRegex(shown, r"\ncuda +devices +no .*not viable: no CUDA device: \S")

    def test_program_on_path(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "tutti-greet")
            with open(program, "w") as file:
                file.write("#!/bin/sh\necho \"$# $1|$2\"; exit 5\n")
            os.chmod(program, stat.S_IRWXU)
            path = {"PATH": folder + ":" + os.environ["PATH"]}
            done = tutti("greet", "-np", "a b", env=path)
            self.assertEqual((done.returncode, done.stdout), (5, "2 -np|a b\n"))
            self.assertTrue(re.search(r"\n  greet +", tutti("help", env=path).stdout))
            self.assert_usage_error(tutti("gret", env=path), "did you mean 'greet'?")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
