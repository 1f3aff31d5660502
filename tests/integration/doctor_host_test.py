"""`tutti doctor --host`: what it finds on this host, and between hosts (network namespaces) with and without a firewall."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from hosts_lab import Lab, Refused
from processes import TUTTI, clean_environment, run

START = "ip netns exec {host}"


def checks_of(done):
    return {one["check"]: one for one in json.loads(done.stdout)}


class ThisHost(unittest.TestCase):
    def test_table_and_json(self):
        done = run(TUTTI, "doctor", "--host")
        self.assertIn(done.returncode, (0, 1))
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout, r"(?m)^(good|slower|wrong) +cores ")
        self.assertRegex(done.stdout, r"\n\d+ checks: \d+ good, \d+ slower, \d+ wrong\n$")
        found = checks_of(run(TUTTI, "doctor", "--host", "--json"))
        self.assertGreater(len(found), 20)
        for one in found.values():
            self.assertIn(one["verdict"], ("good", "slower", "wrong"))
            self.assertEqual(one["advice"] == "", one["verdict"] == "good", one)

    def test_interfaces_that_are_not_there(self):
        done = run(TUTTI, "doctor", "--host", "--json", "--iface", "nowhere0")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(checks_of(done)["interfaces"]["verdict"], "wrong")

    def test_a_host_that_cannot_be_started(self):
        with tempfile.TemporaryDirectory() as folder:
            start = os.path.join(folder, "start")
            with open(start, "w") as file:
                file.write("#!/bin/sh\necho banner; echo no such host $1 >&2; exit 3\n")
            os.chmod(start, 0o700)
            done = run(TUTTI, "doctor", "--host", "far", "--json", "--remote-start", start)
        self.assertEqual(done.returncode, 1)
        one = checks_of(done)["start on far"]
        self.assertEqual(one["verdict"], "wrong")
        self.assertIn("no such host far", one["found"])

    def test_no_names_of_hosts(self):
        self.assertEqual(run(TUTTI, "doctor", "--host=-oProxyCommand=x").returncode, 2)

    def test_this_host_by_name(self):
        found = checks_of(run(TUTTI, "doctor", "--host", "localhost", "--json"))
        self.assertEqual(found["start on localhost"]["verdict"], "good")


class TwoHosts(unittest.TestCase):
    def setUp(self):
        lab = Lab(2, dead_end=True)
        try:
            self.lab = lab.__enter__()
        except Refused as why:
            self.skipTest(str(why))
        self.addCleanup(lab.__exit__)

    def asked(self, *flags):
        words = self.lab.words(0, TUTTI, "doctor", "--json", *flags, "--remote-start", START, "--host", self.lab.name(1))
        done = subprocess.run(words, capture_output=True, text=True, timeout=90, env=clean_environment())
        self.assertEqual(done.stderr, "")
        found = checks_of(done)
        self.assertEqual(found["start on " + self.lab.name(1)]["verdict"], "good")
        return found["tcp here -> " + self.lab.name(1)], found[f"tcp {self.lab.name(1)} -> here"]

    def block(self, host, action):
        if shutil.which("nft") is None:
            self.skipTest("nft is not installed (nftables)")
        rules = f"add table inet t; add chain inet t in {{ type filter hook input priority 0; }}; add rule inet t in tcp flags & (syn | ack) == syn {action}"
        done = subprocess.run(self.lab.words(host, "nft", rules), capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("no firewall can be set up here: " + done.stderr.strip())

    def test_open(self):
        for one in self.asked("--iface", "common0"):
            self.assertEqual((one["verdict"], one["advice"]), ("good", ""), one)
            self.assertIn("10.88.0.", one["found"])

    def test_networks_that_lead_nowhere(self):
        for one in self.asked():
            self.assertEqual(one["verdict"], "slower", one)
            self.assertRegex(one["found"], r"10\.88\.0\..*; not 192\.168\.88\.")
            self.assertNotIn("172.31.0.1", one["found"])  # both have it
            self.assertIn("TUTTI_IFACE", one["advice"])

    def test_a_firewall_there(self):
        self.block(1, "drop")
        there, here = self.asked("--iface", "common0")
        self.assertEqual((there["verdict"], here["verdict"]), ("wrong", "good"))
        self.assertIn("no answer", there["found"])
        self.assertIn("blocks the way from here", there["advice"])

    def test_a_firewall_here(self):
        self.block(0, "reject with tcp reset")
        there, here = self.asked("--iface", "common0")
        self.assertEqual((there["verdict"], here["verdict"]), ("good", "wrong"))
        self.assertIn("refuses the way from " + self.lab.name(1) + " to here", here["advice"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
