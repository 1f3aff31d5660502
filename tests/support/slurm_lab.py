"""A real SLURM of as many nodes as a Lab has hosts, n1, n2, ...: one slurmctld, one slurmd a host, a munged of its own.

    with Lab(2) as lab, SlurmLab(lab) as slurm:
        slurm.srun("-N2", "-n4", "./program")

Everything lives in a temporary folder and goes with the SlurmLab. Each node has its host's network, a name of its own, and the names of the
others; /sys stays as it is, because slurmd wants the control groups.
"""

import os
import shutil
import subprocess
import tempfile
import time

from hosts_lab import Refused

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost=n1({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
{nodes}
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""


class SlurmLab:
    def __init__(self, lab):
        self.lab, self.processes = lab, []

    def words(self, i, *words):
        """Runs words as node i would: `ip netns exec` would hide the control groups."""
        name = self.lab.name(i)
        script = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
        return ["nsenter", f"--net=/run/netns/{name}", "unshare", "--uts", "--mount", "sh", "-c", script, "sh", f"n{i + 1}",
                f"/etc/netns/{name}/hosts", *map(str, words)]

    def run(self, *words, env=None, timeout=60):
        """On the first node."""
        return subprocess.run(self.words(0, *words), capture_output=True, text=True, timeout=timeout,
                              env={**(env or os.environ), "SLURM_CONF": self.configuration})

    def srun(self, *words, **options):
        return self.run("srun", *words, **options)

    def __enter__(self):
        for program in ("srun", "slurmctld", "slurmd", "munged"):
            if shutil.which(program) is None:
                raise Refused(f"{program} is not installed (slurm-wlm, munge)")
        self.folder = tempfile.mkdtemp(prefix="slurm-")
        self.configuration = f"{self.folder}/slurm.conf"
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        with open(f"{self.folder}/munge.key", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(64))
        os.chmod(self.folder, 0o755)
        os.mkdir(f"{self.folder}/state")
        hosts = range(self.lab.hosts)
        nodes = "\n".join(f"NodeName=n{i + 1} NodeAddr={self.lab.address(i)} CPUs=4 RealMemory=1000 State=UNKNOWN" for i in hosts)
        with open(self.configuration, "w") as file:
            file.write(CONFIGURATION.format(folder=self.folder, controller=self.lab.address(0), nodes=nodes))
        for name in self.lab.names():
            with open(f"/etc/netns/{name}/hosts", "a") as file:
                file.writelines(f"{self.lab.address(i)} n{i + 1}\n" for i in hosts)
        place = [f"--{what}={self.folder}/munge{end}" for what, end in
                 (("socket", ".socket"), ("key-file", ".key"), ("pid-file", "d.pid"), ("log-file", ".log"), ("seed-file", ".seed"))]
        self.start(["munged", "--foreground", "--force", *place])
        self.wait_for(lambda: os.path.exists(f"{self.folder}/munge.socket"))
        self.start(self.words(0, "slurmctld", "-D"))
        for i in hosts:
            self.start(self.words(i, "slurmd", "-D", "-N", f"n{i + 1}"))
        self.wait_for(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(self.lab.hosts))

    def start(self, words):
        with open(f"{self.folder}/output", "a") as output:
            self.processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                                   env={**os.environ, "SLURM_CONF": self.configuration}))

    def wait_for(self, condition):
        for _ in range(600):
            if condition():
                return
            if any(process.poll() is not None for process in self.processes):
                break
            time.sleep(0.05)
        with open(f"{self.folder}/output") as file:
            raise Refused("SLURM does not come up here: " + " | ".join(file.read().splitlines()[-4:]))

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
