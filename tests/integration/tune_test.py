"""`tutti tune`: a file of rules that jobs take up by themselves, and what is said of wrong ones."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TUTTI_TUNING"}
TUTTI = os.path.join(sys.argv[1], "tutti")


def tutti(*words, env=None, code=0):
    done = subprocess.run([TUTTI, *map(str, words)], capture_output=True, text=True, timeout=100,
                          env={**ENVIRONMENT, **(env or {})})
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done


def rules_in(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if not line.startswith("#")]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


CORES = r"(?:, cores [0-9.]+)?"  # where ranks outnumber them


class Tune(unittest.TestCase):
    def test_measures_writes_and_is_taken_up(self):
        with tempfile.TemporaryDirectory() as home:
            env = {"XDG_CONFIG_HOME": home}
            said = tutti("tune", "-np", "3", "--seconds", "1", "-e", "1M", "--collectives", "allreduce,barrier", env=env).stdout
            path = re.search(r"written to (\S+)", said).group(1)
            self.assertEqual(os.path.dirname(path), os.path.join(home, "tutti"))
            rules = rules_in(path)
            for ranks in ("1..2", "3..3"):
                for kind in ("allreduce", "barrier"):
                    mine = [rule for rule in rules if rule.startswith(kind + ":") and f"ranks {ranks} " in rule]
                    self.assertTrue(mine[0].startswith(kind + ": 0.."), rules)
                    self.assertRegex(mine[-1], r"\.\. ranks", "the last range is open")
            explained = tutti("bench", "barrier", "-np", "3", "--explain", "on", env=env).stdout
            self.assertIn("(tuned)", explained)
            off = tutti("bench", "barrier", "-np", "3", "--explain", "on", "--tuning", "off", env=env).stdout
            self.assertIn("(built in)", off)

    def test_the_network_stands_at_the_head_of_the_rules(self):
        with tempfile.TemporaryDirectory() as home:
            path = os.path.join(home, "rules")
            said = tutti("tune", "-np", "2", "--seconds", "1", "-e", "64", "--collectives", "barrier", "--file", path).stdout
            line = rules_in(path)[0]
            self.assertRegex(line, r"^network: within \S+s \S+ \S+s, fold [^, ]+" + CORES + "$")
            self.assertIn(line, said)
            tutti("bench", "barrier", "-np", "2", "--tuning", path)  # and can be read
            self.assertEqual([rule for rule in rules_in(path) if rule.startswith("network")], [line])
            tutti("tune", "-np", "2", "--seconds", "1", "-e", "64", "--collectives", "barrier", "--file", path)
            self.assertEqual(len([rule for rule in rules_in(path) if rule.startswith("network")]), 1)

    def test_the_network_between_hosts(self):
        start = ["run", "--remote-start", "env TUTTI_HOST_ID={host}", "--hosts"]
        said = tutti(*start, "a:1,b:1", TUTTI, "tune", "--network").stdout
        self.assertRegex(said, r"^network: between \S+s \S+ \S+s, fold [^, ]+" + CORES + r"\n$")
        said = tutti(*start, "a:2,b:1", "--net", "1gbit,5ms", TUTTI, "tune", "--network").stdout
        found = re.fullmatch(r"network: within (\S+)ms (\S+)M \S+s, between (\S+)ms (\S+)M \S+s, fold [^, ]+" + CORES + r"\n", said)
        self.assertIsNotNone(found, said)
        # The link has 5 ms and 125 MB/s. A bandwidth is measured as the difference of two times, which varies by 1 %.
        for figure, least, most in zip(found.groups(), (5, 0, 5, 0), (1000, 127.5, 1000, 127.5)):
            self.assertTrue(least <= float(figure) <= most, said)

    def test_the_network_between_racks(self):
        start = ["run", "--remote-start", "env TUTTI_HOST_ID={host}", "--hosts"]
        said = tutti(*start, "a:1@r,b:1@r,c:1@s,d:1@s", TUTTI, "tune", "--network").stdout
        self.assertRegex(said, r"^network: between \S+s \S+ \S+s, beyond \S+s \S+ \S+s, fold [^, ]+" + CORES + r"\n$")

    def test_rules_of_other_collectives_stay(self):
        with tempfile.TemporaryDirectory() as home:
            path = write(os.path.join(home, "rules"), "# old\nbarrier: 0.. ranks 1..2=dissemination\nallreduce: 0.. ranks 1..9=tree\n")
            tutti("tune", "-np", "2", "--seconds", "1", "-e", "64", "--collectives", "allreduce", "--file", path)
            rules = rules_in(path)
            self.assertEqual(rules[-1], "barrier: 0.. ranks 1..2=dissemination")
            self.assertNotIn("allreduce: 0.. ranks 1..9=tree", rules)

    def test_lines_of_a_named_file_that_cannot_be_read_are_told_once(self):
        with tempfile.TemporaryDirectory() as home:
            path = write(os.path.join(home, "rules"), "# a comment\n\nbarrier: ..=foo\nallreduce: ..=tree\ngarbage\n")
            done = tutti("bench", "allreduce", "-np", "2", "-e", "8", "--tuning", path, "--explain", "on")
            self.assertIn("rule 'allreduce: ..=tree' (tuned)", done.stdout)
            self.assertEqual(done.stderr.count(f"{path}:3 is passed over: cannot read the selection rule"), 1, done.stderr)
            self.assertEqual(done.stderr.count(f"{path}:5 is passed over: cannot read the selection rule"), 1, done.stderr)
            self.assertEqual(done.stderr.count("passed over"), 2, done.stderr)

    def test_the_check_ends_as_it_says(self):
        words = [TUTTI, "tune", "-np", "3", "--check", "--seconds", "1", "-e", "1M", "--collectives", "allreduce", "--tuning", "off"]
        # The rules' own choice, and one that sends everything through sockets although there is shared memory.
        for rules in ([], ["--select", "allreduce: 0.. = planned/ring", "--transport", "tcp,shm"]):
            done = subprocess.run(words + rules, capture_output=True, text=True, timeout=100, env=ENVIRONMENT)
            least = re.search(r"^least ratio of the best other choice / ours: (\d+\.\d+), of 36 sizes, \d+ measured twice", done.stdout, re.M)
            self.assertIsNotNone(least, done.stdout + done.stderr)
            ratios = [float(ratio) for ratio in re.findall(r"ratio (\d+\.\d+|inf)", done.stdout)]
            self.assertEqual(min(ratios), float(least.group(1)), done.stdout)
            self.assertEqual(len(re.findall(r"first try", done.stdout)), int(re.search(r"(\d+) measured twice", done.stdout).group(1)))
            below = " below 0.90: tune anew" in done.stdout
            self.assertTrue(below or not rules, done.stdout)  # less than half as fast, whatever the machine does
            self.assertEqual(done.returncode, 1 if below else 0, done.stderr)
            (self.assertLessEqual if below else self.assertGreaterEqual)(float(least.group(1)), 0.9)

    def test_wrong_words_are_one_line(self):
        for words in (["--collectives", "allredcue"], ["-np", "1"], ["--secnods", "3"], ["--seconds", "no"], ["-e", "much"]):
            done = tutti("tune", *words, code=2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_file_that_is_not_there(self):
        done = tutti("bench", "barrier", "-np", "2", "--tuning", "/nowhere/rules", code=2)
        self.assertIn("/nowhere/rules: cannot be read: No such file or directory; make the file with `tutti tune`", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
