"""Strangers at every socket of a job, while it starts and while it runs: it starts, its results are right, it logs few
of them and keeps no descriptor. `strangers.py` does the same with thousands, and measures the start."""

import sys
import unittest

import strangers
from processes import BIN, TESTS, clean_environment

MANY = 150  # of each kind at each socket; a listener keeps 64 and one for each rank


class Strangers(unittest.TestCase):
    def play(self, case, count):
        outcome = strangers.play(case, count, BIN, TESTS, clean_environment(TUTTI_TUNING="off"))
        self.assertEqual(outcome.status, 0, outcome.log)
        self.assertEqual(sorted(outcome.descriptors), list(range(strangers.RANKS)), outcome.output)
        return outcome

    def check(self, pattern):
        for case in strangers.chosen(pattern):
            with self.subTest(case.name):
                quiet, loud = self.play(case, 0), self.play(case, MANY)
                print(f"{case.name}: {sum(loud.sent.values())} strangers, started in {loud.start:.3f} s, without "
                      f"them in {quiet.start:.3f} s")
                self.assertLessEqual(quiet.lines, 0, quiet.log)
                # Five lines of each listener's process, and one more every ten seconds.
                self.assertLessEqual(loud.lines, 60, loud.log)
                self.assertLess(loud.most_descriptors, 400)
                if case.mark == "at once":
                    continue  # the job may end before the last strangers have come or gone
                self.assertEqual(loud.descriptors, quiet.descriptors)
                for kind in case.kinds:
                    for role in case.roles:
                        if (kind, role) != ("silent", "bell"):
                            self.assertGreaterEqual(loud.sent[kind, role], MANY * 9 // 10, (loud.sent, loud.gone))

    def test_while_a_rank_is_late(self):
        self.check("all with *, both")

    def test_from_the_first_moment_on(self):
        self.check("all with *, not held")

    def test_while_a_worker_joins(self):
        self.check("door for workers, *")

    def test_those_of_another_user(self):
        self.check("*other user")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
