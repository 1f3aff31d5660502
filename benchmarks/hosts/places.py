"""Hosts that one machine plays, and how jobs of tutti and of MPIs are started on them."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests/support"))
import hosts_lab  # noqa: E402
from hosts_lab import Refused  # noqa: E402, F401

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")} | {"TUTTI_TUNING": "off", "OMP_NUM_THREADS": "1"}
# What Open MPI needs to run between the namespaces, as root, with more ranks than cores.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_tcp_if_include": "common0",
       "OMPI_MCA_mpi_yield_when_idle": "1"}
MPI_OF_VERSION = {
    4: {"OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_plm": "rsh", "OMPI_MCA_oob_tcp_if_include": "common0"},
    5: {"OMPI_MCA_btl": "self,sm,tcp", "OMPI_MCA_smsc": "^cma", "PRTE_MCA_prte_if_include": "common0"},
}


def fail(text):
    """Ends the command; nothing could be compared."""
    print(f"hosts: {text}", file=sys.stderr)
    raise SystemExit(2)


def play(words, environment, patience):
    """What the command says on stdout; it is ended with all that it has started if it takes too long, and by an interrupt."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {patience} s (--patience)") from None
    finally:
        for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, None)):
            if process.poll() is None:
                os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
    if process.returncode != 0:
        raise RuntimeError(f"exit code {process.returncode}: " + " ".join(err.split())[-400:])
    return out


class Lab:
    """Hosts that are network namespaces."""

    def __init__(self, options, hosts, ranks, rate):
        self.options, self.hosts, self.ranks, self.name, self.settings = options, hosts, ranks, rate, {}
        self.lab = hosts_lab.Lab(hosts, families=(4,), rate=rate)
        self.peers = options.peers

    def __enter__(self):
        self.lab.__enter__()
        return self

    def __exit__(self, *why):
        self.lab.__exit__(*why)

    def sent(self):
        return sum(self.lab.sent())

    def ours(self, *words):
        return self.lab.words(0, self.options.tutti, "run", "--hosts", self.lab.list(self.ranks), "--remote-start", "ip netns exec {host}", *words), CLEAN | self.settings

    def of_peer(self, peer, *words):
        agent, hosts = self.lab.mpi_agent(self.options.folder), self.lab.mpi_hosts(self.options.folder, self.ranks)
        environment = CLEAN | MPI | MPI_OF_VERSION[peer.version] | {"OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent,
                                                                   "TMPDIR": self.options.folder} | peer.environment
        return self.lab.named_words(0, peer.mpirun, "--hostfile", hosts, "--map-by", f"ppr:{self.ranks}:node:oversubscribe", "--bind-to", "none",
                                    "-n", self.hosts * self.ranks, peer.program, *words), environment


class Links:
    """Hosts by name only, and ranks whose messages take as long as on a link."""

    def __init__(self, options, hosts, ranks, link):
        self.options, self.hosts, self.ranks, self.name, self.settings = options, hosts, ranks, link, {"TUTTI_NET": link}
        self.peers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def sent(self):
        return None

    def ours(self, *words):
        names = ",".join(f"host{i}:{self.ranks}" for i in range(self.hosts))
        return [self.options.tutti, "run", "--hosts", names, "--remote-start", "env TUTTI_HOST_ID={host}", *words], CLEAN | self.settings


class Peer:
    def __init__(self, spec, options):
        found = re.fullmatch(r"([^=,]+)=([^=,]+),([^=,]+)((?:,\w+=[^,]*)*)", spec)
        if not found:
            fail(f"--peer wants NAME=MPICXX,MPIRUN[,VARIABLE=VALUE...], not '{spec}'")
        self.name, mpicxx, self.mpirun, settings = found.groups()
        self.environment = dict(setting.split("=", 1) for setting in settings.split(",")[1:])
        try:
            said = subprocess.run([self.mpirun, "--version"], capture_output=True, text=True, env=CLEAN | MPI | self.environment).stdout
        except OSError as error:
            fail(f"{self.name}: cannot run {self.mpirun}: {error.strerror}")
        found = re.search(r"\((?:Open MPI|OpenRTE)\) (\d+)", said)
        if not found or int(found[1]) not in MPI_OF_VERSION:
            fail(f"{self.name}: {self.mpirun} is not of Open MPI 4 or 5, which alone are known to run between namespaces")
        self.version = int(found[1])
        self.program = pathlib.Path(options.folder) / self.name
        sources = options.bin.parent / "share/tutti/bench/source"
        print(f"compiling {self.name} with {mpicxx}", file=sys.stderr)
        done = subprocess.run([mpicxx, "-std=c++20", "-O2", "-DOMPI_SKIP_MPICXX", "-I", sources, "-I", sources / "include", *sorted(sources.rglob("*.cpp")),
                               "-o", self.program], capture_output=True, text=True, env=CLEAN | self.environment)
        if done.returncode != 0:
            fail(f"{self.name}: {mpicxx} does not compile the program: {done.stderr.strip()[:500]}")
