"""The tcp wire between hosts with two interfaces each, of which one network reaches the others and one does not."""

import os
import re
import sys
import tempfile

from hosts_lab import lab_or_skip

tests = sys.argv[2]


def peers(lab, size, folder, size_of_message, **variables):
    env = {**os.environ, **variables}
    done = lab.everywhere(lambda i: [os.path.join(tests, "tcp_peer"), i, size, folder, size_of_message], env=env)
    for one in done:
        print(one.stdout)
    return done


with tempfile.TemporaryDirectory() as folder:
    lab = lab_or_skip(3, families=(4,), dead_end=True)
    try:
        done = peers(lab, 3, os.path.join(folder, "store"), 100000)
        assert [one.returncode for one in done] == [0, 0, 0], done
        routes = re.findall(r"rank (\d) reaches (\d) at (\S+) via (\S+)", "".join(one.stdout for one in done))
        assert len(routes) == 6, routes
        for rank, peer, where, via in routes:
            assert where.startswith("10.88.0.") and via == "common0", (rank, peer, where, via)
        # The network that leads nowhere, by force: every rank is told which peer it cannot reach.
        done = peers(lab, 3, os.path.join(folder, "second"), 1000, TUTTI_IFACE="alone0")
        for one in done:
            assert one.returncode == 1, one
            assert "cannot be reached by tcp" in one.stdout and "TUTTI_IFACE" in one.stdout, one
    finally:
        lab.__exit__()
print("passed")
