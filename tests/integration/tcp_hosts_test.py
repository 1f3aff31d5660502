"""Several hosts, as network namespaces with two interfaces each, of which one network reaches the others and one does not."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

tests = sys.argv[2]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
lab = os.path.join(root, "tests", "support", "netns.sh")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


if os.geteuid() != 0:
    skip("network namespaces need root")
if shutil.which("ip") is None:
    skip("ip is not installed (iproute2)")
probe = subprocess.run([lab, "1", "true"], capture_output=True, text=True)
if probe.returncode != 0:
    skip("network namespaces cannot be made here: " + probe.stderr.strip())

with tempfile.TemporaryDirectory() as folder:
    run = subprocess.run(
        [lab, "3", os.path.join(tests, "tcp_peer"), "%i", "3", os.path.join(folder, "store"), "100000"],
        capture_output=True, text=True, timeout=60)
    print(run.stdout + run.stderr)
    assert run.returncode == 0, run.returncode
    routes = re.findall(r"rank (\d) reaches (\d) at (\S+) via (\S+)", run.stdout)
    assert len(routes) == 6, routes
    for rank, peer, where, via in routes:
        assert where.startswith("10.88.0.") and via == "common0", (rank, peer, where, via)
    # The network that leads nowhere, by force: every rank is told which peer it cannot reach.
    os.environ["TUTTI_IFACE"] = "alone0"
    run = subprocess.run(
        [lab, "2", os.path.join(tests, "tcp_peer"), "%i", "2", os.path.join(folder, "second"), "1000"],
        capture_output=True, text=True, timeout=60)
    print(run.stdout + run.stderr)
    assert run.returncode == 1, run.returncode
    assert "cannot be reached by tcp" in run.stdout, run.stdout
    assert "TUTTI_IFACE" in run.stdout, run.stdout
print("passed")
