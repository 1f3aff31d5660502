"""The strangers of strangers.py: which sockets a job has that somebody could call, what strangers say there, and the
processes that are the strangers."""

import array
import collections
import contextlib
import multiprocessing
import os
import random
import re
import resource
import select
import signal
import socket
import struct

RANKS = 4
NOBODY = 65534

# ---- which sockets a job has ----

Target = collections.namedtuple("Target", "role rank address")  # role: store, door, tcp, meeting, bell


def processes_below(root):
    found, at = [root], 0
    while at < len(found):
        with contextlib.suppress(OSError), open(f"/proc/{found[at]}/task/{found[at]}/children") as file:
            found += [int(word) for word in file.read().split()]
        at += 1
    return found


def rank_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        rank = re.search(rb"(?:^|\0)TUTTI_RANK=(\d+)", file.read())
        return int(rank[1]) if rank else -1
    return -1


def open_sockets():
    """By inode: whatever somebody could call."""
    found = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/net/{table}") as file:
            next(file)
            for words in map(str.split, file):
                if words[3] != "0A":
                    break  # those that listen come first, before thousands of strangers
                host, port = words[1].split(":")
                packed = b"".join(bytes.fromhex(host[i:i + 8])[::-1] for i in range(0, len(host), 8))
                text = socket.inet_ntop(family, packed)
                found[int(words[9])] = ("tcp", {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(text, text), int(port, 16))
    with open("/proc/net/unix") as file:
        for line in file:
            words = line.split() if " @tutti-" in line else ()
            if len(words) < 8:
                continue
            if words[4] == "0002":
                found[int(words[6])] = ("bell", "\0" + words[7][1:])
            elif int(words[3], 16) & 0x10000:
                found[int(words[6])] = ("meeting", "\0" + words[7][1:])
    return found


def targets_of(launcher):
    """Of all processes of the job; the launcher's is the store."""
    there, found = open_sockets(), set()
    for pid in processes_below(launcher):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{name}")
                    one = there.get(int(link[8:-1])) if link.startswith("socket:[") else None
                    if one and (pid == launcher or rank_of(pid) >= 0):  # else a child that has inherited it
                        found.add(Target("store" if pid == launcher else one[0], rank_of(pid), one[1:]))
    return found


# ---- what strangers say ----

def mutated(rng, data):
    data, how = bytearray(data), rng.randrange(10)
    if how < 4:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif how == 4:
        del data[rng.randrange(len(data)):]
    elif how == 5:
        data += rng.randbytes(rng.choice((1, 7, 1000, 70_000)))
    elif how == 6:
        data = rng.randbytes(rng.choice((1, 10, 100, 10_000)))
    elif how == 7:
        data = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    return bytes(data)  # 8, 9: as it is


def store_words(rng, _target, _known):
    return [mutated(rng, b"tutti store\r\n\x1a" + struct.pack("<I", 3) + rng.randbytes(64))]


def tcp_words(rng, target, known):
    instance = known.get("instances", {}).get(target.rank, rng.getrandbits(64))
    caller = rng.choice([rank for rank in range(RANKS) if rank != target.rank])
    hello = b"tutti-tc" + struct.pack("<IIIIIIQQ", 2, 0, caller, target.rank, RANKS, 0, known.get("job", 0), instance)
    words = [hello + rng.randbytes(24), rng.randbytes(32) + b"\xc5"]
    at = rng.randrange(3)
    return words if at == 2 else words[:at] + [mutated(rng, words[at])]


def meeting_words(rng, _target, _known):
    def message(kind, cards=0):
        return struct.pack("<IHHii", 0x75747475, 4, kind, rng.randint(1, RANKS - 1), 0) + struct.pack(
            "<iIqQQQ16s8s16s32sII", 1, 0, 1, 1, 1, 1, rng.randbytes(16), bytes(rng.randrange(2) for _ in range(8)),
            rng.randbytes(16), rng.randbytes(32), cards, 0) + rng.randbytes(cards * 56)
    words = [message(1), message(rng.choice((3, 3, 3, 1, 2, 4, 5)), rng.choice((0, 0, 1, 120)))]
    at = rng.randrange(3)
    return words if at == 2 else words[:at] + [mutated(rng, words[at])]


def bell_words(rng, _target, _known):
    return [rng.randbytes(rng.choice((0, 1, 100, 20_000)))]


WORDS = {"store": store_words, "door": store_words, "tcp": tcp_words, "meeting": meeting_words, "bell": bell_words}


# ---- the strangers ----

class Crowd:
    """One process with all strangers of a kind: silent, talking, or silent ones of another user. They stay until they
    are sent away, as far as this process may have descriptors."""

    def __init__(self, kind, seed):
        self.kind = kind
        self.here, there = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self._live, args=(there, seed), daemon=True)
        self.process.start()
        there.close()

    def tell(self, what, value=None):
        with contextlib.suppress(OSError):
            self.here.send((what, value))

    def end(self):
        self.tell("end")
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    # In the process itself.

    def _live(self, pipe, seed):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpriority(os.PRIO_PROCESS, 0, 10)
        self.most = most_descriptors() - 100
        if self.kind == "other user":
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        self.rng, self.known, self.share, self.asked = random.Random(seed), {}, 0, False
        self.sent, self.gone, self.targets = collections.Counter(), {}, []
        self.held, self.epoll = collections.OrderedDict(), select.epoll()
        self.bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.null = os.open("/dev/null", os.O_RDONLY)
        while self._hear(pipe):
            busy = [self._call_some(target) for target in self.targets]
            self._sweep(0 if any(busy) else 0.002)
            if self.asked and all(self.through(target) for target in self.targets):
                pipe.send((dict(self.sent), self.gone))
                self.asked = False

    def _hear(self, pipe):
        while pipe.poll():
            what, value = pipe.recv()
            if what == "end":
                return False
            if what == "target":
                self.targets.append(value)
            elif what == "known":
                self.known.update(value)
            elif what == "share":
                self.share = value
            elif what == "report":
                self.asked = True
            elif what == "leave":
                while self.held:
                    self.held.popitem()[1][0].close()
        return True

    def through(self, target):
        return self.sent[target] >= self.share or target in self.gone

    def _call_some(self, target):
        """Up to 16 strangers; whether any could call."""
        for i in range(16):
            if self.through(target):
                return i > 0
            try:
                self._ring(target) if target.role == "bell" else self._call(target)
            except ConnectionRefusedError as error:
                self.gone[target] = str(error)
                return False
            except OSError:  # its queue is full, or there is no port at the moment
                return False
            self.sent[target] += 1
        return True

    def _call(self, target):
        path = target.role == "meeting"
        family = socket.AF_UNIX if path else socket.AF_INET6 if ":" in target.address[0] else socket.AF_INET
        one = socket.socket(family, (socket.SOCK_SEQPACKET if path else socket.SOCK_STREAM) | socket.SOCK_NONBLOCK)
        try:
            one.connect(target.address[0] if path else target.address)
        except BlockingIOError:
            if path:  # its queue is full
                one.close()
                raise
        except BaseException:
            one.close()
            raise
        words = WORDS[target.role](self.rng, target, self.known) if self.kind == "talking" else []
        self.epoll.register(one, select.EPOLLRDHUP | (select.EPOLLOUT if words else 0))
        self.held[one.fileno()] = (one, words, path)
        if len(self.held) > self.most:
            self.held.popitem(last=False)[1][0].close()

    def _ring(self, target):
        with contextlib.suppress(OSError):
            for words in WORDS["bell"](self.rng, target, self.known):
                self.bell.sendmsg([words], self._descriptors(), 0, target.address[0])

    def _descriptors(self):
        count = self.rng.choice((0, 0, 1, 2, 3, 240))
        return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.null] * count))] if count else []

    def _sweep(self, seconds):
        for fd, events in self.epoll.poll(seconds, 512):
            one, words, path = self.held[fd]
            try:
                while words and not events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                    if path:
                        one.sendmsg([words[0]], self._descriptors())
                    else:
                        one.send(words[0])
                    del words[0]
                self.epoll.modify(fd, select.EPOLLRDHUP)
            except BlockingIOError:
                continue
            except OSError:
                events = select.EPOLLHUP
            # One in three leaves when it has spoken.
            if events & ~select.EPOLLOUT or (events & select.EPOLLOUT and self.rng.randrange(3) == 0):
                self.held.pop(fd)[0].close()


def most_descriptors():
    wanted = 70_000
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
