"""Hosts on one machine: network namespaces, joined by a bridge.

    with Lab(4, rate="200mbit") as lab:
        lab.run(0, "ping", lab.address(1))

Each host has `common0`, joined to the others by a bridge in a namespace of its own, with 10.88.0.(i+1)/24 and fd00:88::(i+1)/64,
or one family of the two. With `dead_end` it also has `alone0`, joined to nothing, with 192.168.88.(i+1)/24, and 172.31.0.1/16 as every
other host has. Names are unique, nothing is added to the machine's own network, and all of it goes with the Lab, as do processes
that are still on a host; what a killed test has left goes when the next one begins.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

PREFIX = "tutti"


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=check)


def end_by_signal(_number, _frame):
    raise KeyboardInterrupt  # the one end that unittest passes on


class Refused(Exception):
    """Namespaces cannot be had here, and why."""


class Lab:
    made = 0

    def __init__(self, hosts, families=(4, 6), rate=None, dead_end=False):
        self.hosts, self.families, self.rate, self.dead_end = hosts, families, rate, dead_end
        Lab.made += 1
        self.base = f"{PREFIX}{os.getpid()}x{Lab.made}"

    # What it consists of.

    def name(self, i):
        return f"{self.base}-{i}"

    def names(self):
        return [self.name(i) for i in range(self.hosts)]

    def address(self, i):
        return f"10.88.0.{i + 1}" if 4 in self.families else f"fd00:88::{i + 1:x}"

    def list(self, slots):
        """For tutti run --hosts."""
        return ",".join(f"{name}:{slots}" for name in self.names())

    def words(self, i, *words):
        return ["ip", "netns", "exec", self.name(i), *map(str, words)]

    def named_words(self, i, *words):
        """The same for a program that asks the machine for its name: it is that of the host."""
        return self.words(i, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.name(i), *words)

    def mpi_agent(self, folder):
        """A program that an MPI's launcher takes for ssh: it asks for "AGENT HOST COMMAND...", and knows a host by the name that it gives
        itself."""
        path = os.path.join(folder, "agent")
        with open(path, "w") as file:
            file.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
                       'exec ip netns exec "$host" unshare --uts sh -c \'hostname "$0"; exec sh -c "$1"\' "$host" "$*"\n')
        os.chmod(path, 0o700)
        return path

    def mpi_hosts(self, folder, slots):
        """A file of hosts for Open MPI."""
        path = os.path.join(folder, "hosts")
        with open(path, "w") as file:
            file.writelines(f"{name} slots={slots}\n" for name in self.names())
        return path

    def run(self, i, *words, **options):
        return subprocess.run(self.words(i, *words), capture_output=True, text=True, timeout=options.pop("timeout", 60), **options)

    def everywhere(self, words_of, **options):
        """Runs words_of(i) on every host i at once; returns what each gave."""
        running = [subprocess.Popen(self.words(i, *words_of(i)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
                   for i in range(self.hosts)]
        try:
            return [subprocess.CompletedProcess(p.args, p.wait(), out) for p, out in [(p, p.communicate(timeout=60)[0]) for p in running]]
        finally:
            for process in running:
                process.kill()

    def sent(self):
        """Bytes that each host has sent to the others, with the headers of their packets."""
        found = []
        for name in self.names():
            links = json.loads(ip("-n", name, "-j", "-s", "link", "show", "common0").stdout)
            found.append(links[0]["stats64"]["tx"]["bytes"])
        return found

    # Coming and going.

    def __enter__(self):
        if os.geteuid() != 0:
            raise Refused("network namespaces need root")
        if shutil.which("ip") is None:
            raise Refused("ip is not installed (iproute2)")
        self.sweep()
        self.before = [(number, signal.signal(number, end_by_signal)) for number in (signal.SIGTERM, signal.SIGHUP)]
        try:
            self.make()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise Refused("network namespaces cannot be made here: " + error.stderr.strip()) from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for number, handler in self.before:
            signal.signal(number, handler)
        self.remove(self.base + "-")

    def make(self):
        switch = f"{self.base}-sw"
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge0", "type", "bridge", "forward_delay", "0")
        ip("-n", switch, "link", "set", "bridge0", "up")
        for i, name in enumerate(self.names()):
            self.make_host(i, name, switch)

    def make_host(self, i, name, switch):
        ip("netns", "add", name)
        host = ["-n", name]
        if 6 not in self.families:
            subprocess.run(["ip", "netns", "exec", name, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"], check=True,
                           capture_output=True, text=True)
        ip(*host, "link", "set", "lo", "up")
        if self.dead_end:  # the first in every list
            ip(*host, "link", "add", "alone0", "type", "veth", "peer", "name", "alone1")
            ip(*host, "link", "set", "alone1", "up")
            ip(*host, "addr", "add", f"192.168.88.{i + 1}/24", "dev", "alone0")
            ip(*host, "addr", "add", "172.31.0.1/16", "dev", "alone0")
            ip(*host, "link", "set", "alone0", "up")
        ip(*host, "link", "add", "common0", "type", "veth", "peer", "name", f"port{i}", "netns", switch)
        if 4 in self.families:
            ip(*host, "addr", "add", f"10.88.0.{i + 1}/24", "dev", "common0")
        if 6 in self.families:
            ip(*host, "addr", "add", f"fd00:88::{i + 1:x}/64", "dev", "common0", "nodad")
        ip(*host, "link", "set", "common0", "up")
        ip("-n", switch, "link", "set", f"port{i}", "master", "bridge0", "up")
        if self.rate:
            for place, device in ((name, "common0"), (switch, f"port{i}")):  # what it sends, and what it is sent
                subprocess.run(["tc", "-n", place, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst", "128kb",
                                "latency", "50ms"], check=True, capture_output=True, text=True)
        # Programs that resolve the hosts' names find them in a file that `ip netns exec` puts in the place of /etc/hosts.
        folder = f"/etc/netns/{name}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{self.address(k)} {n}\n" for k, n in enumerate(self.names())))

    @staticmethod
    def remove(base):
        for line in ip("netns", "list", check=False).stdout.splitlines():
            name = line.split()[0]
            if name.startswith(base):
                for pid in ip("netns", "pids", name, check=False).stdout.split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                ip("netns", "del", name, check=False)
                shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)

    @classmethod
    def sweep(cls):
        """Removes the labs of processes that are gone."""
        for pid in {m[1] for m in re.finditer(rf"^{PREFIX}(\d+)x", ip("netns", "list", check=False).stdout, re.M)}:
            if not os.path.exists(f"/proc/{pid}"):
                cls.remove(f"{PREFIX}{pid}x")


def lab_or_skip(*arguments, **options):
    """Enters a Lab, or ends the test program as skipped."""
    lab = Lab(*arguments, **options)
    try:
        return lab.__enter__()
    except Refused as why:
        print("skipped:", why)
        sys.exit(77)
