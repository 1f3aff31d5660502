"""Every preset of strategies that works between peers learns to read handwriting, on four processes; the argument is the folder of the programs."""

import pathlib
import re
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "training"))

from training import InFolder, command, train  # noqa: E402
from strategies import PEERS  # noqa: E402


class Strategies(InFolder):
    def test_learn_to_97_percent(self):
        made = command("data", "optdigits", "digits", cwd=self.folder)
        if made.returncode == 1 and "--from" in made.stderr:
            self.skipTest("the digits cannot be fetched here: " + made.stderr.strip())
        self.assertEqual(made.returncode, 0, made.stderr)
        for name, words in PEERS.items():
            with self.subTest(name):
                done = train(4, "--config", "lenet-digits", "data=digits", "target=97", "run=none", "progress=off", f"strategy={name}", *words,
                             cwd=self.folder)
                self.assertIn("accuracy reached stop.target", done.stdout)
                self.assertIn("equal on all 4 ranks", done.stdout)
                self.assertGreater(int(re.search(r"(\d+) exchanges", done.stdout)[1]), 0)


if __name__ == "__main__":
    unittest.main()
