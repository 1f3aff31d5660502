#!/usr/bin/env python3
"""How jobs of torchrun start, start again and end, over tutti and over Gloo: exit codes, and what is printed."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

BODIES = {
    # name: the program behind init_process_group, and the exit code that torchrun has to end with
    "destroys": ("dist.all_reduce(t); dist.destroy_process_group()", 0),
    "leaves": ("dist.all_reduce(t)", 0),
    "pending": ("kept = dist.all_reduce(t, async_op=True)", 0),
    "dropped": ("dist.all_reduce(t, async_op=True)", 0),
    "sys.exit(0)": ("dist.barrier(); sys.exit(0)", 0),
    "os._exit(0)": ("dist.barrier(); os._exit(0)", 0),
    "subgroup": ("g = dist.new_group([0]); dist.all_reduce(t)", 0),
    "thread": ("import threading; w = threading.Thread(target=lambda: dist.all_reduce(t)); w.start(); w.join()", 0),
    "callback": ("dist.all_reduce(t, async_op=True).get_future().then(lambda f: dist.all_reduce(torch.ones(2))).wait()", 0),
    "twice": ("dist.all_reduce(t); dist.destroy_process_group(); init(); dist.all_reduce(t); dist.destroy_process_group()", 0),
    "raises": ("dist.barrier(); raise ValueError('the program')", 1),
    "one raises": ("dist.barrier()\nif rank == 0: raise ValueError('the program')\ndist.barrier()", 1),
    "sys.exit(3)": ("dist.barrier(); sys.exit(3)", 1),
    "killed": ("dist.barrier()\nif rank == 1: os.kill(os.getpid(), 9)\ndist.barrier()", 1),
}

HEAD = """
import datetime, os, sys, torch, torch.distributed as dist
backend = os.environ["TEST_BACKEND"]
if "tutti" in backend: import tutti.torch
def init(): dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60))
rank = int(os.environ["RANK"])
"""


def torchrun(body, backend, *options, ranks=2, limit=240, **environment):
    """The exit code and output of a job of this program."""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        program = pathlib.Path(folder, "program.py")
        program.write_text(HEAD + body)
        done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", "0",
                               "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *options, str(program)],
                              env=os.environ | {"TEST_BACKEND": backend, "TEST_FOLDER": folder, "OMP_NUM_THREADS": "1"} | environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
        return done.returncode, done.stdout


def test_exits():
    """A job for each way, over tutti alone: the exit code is the one that it ought to have, and nobody crashes or hangs."""
    for name, (body, code) in BODIES.items():
        found, text = torchrun(f"init()\nt = torch.ones(3)\n{body}\n", "tutti")
        assert (found != 0) == (code != 0), f"{name}: exit code {found}\n{text}"
        assert not re.search(r"terminate called|Segmentation|core dumped|SIGSEGV|SIGABRT", text), f"{name}\n{text}"
    return f"{len(BODIES)} ways, as they should"


def test_restart():
    """A rank that dies in its first life: torchrun starts all again, and they end in the second one. Over tutti alone: ranks of Gloo
    sometimes take the addresses of the first life for those of the second."""
    body = """
init()
life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
t = torch.ones(3)
for step in range(4):
    dist.all_reduce(t)
    if life == 0 and step == 2 and rank == 1: os.kill(os.getpid(), 9)
print(f"rank {rank} life {life} sum {t[0].item()}\\n", end="", flush=True)
dist.destroy_process_group()
"""
    code, text = torchrun(body, "tutti", "--max-restarts", "1")
    lives = sorted(re.findall(r"rank (\d) life (\d) sum (\S+)", text))
    assert code == 0 and lives == [("0", "1", "16.0"), ("1", "1", "16.0")], f"{code} {lives}\n{text}"
    return "ended in the second life"



def test_detail():
    """TORCH_DISTRIBUTED_DEBUG=DETAIL from the start: calls and DDP work, and different ones are named. With Gloo, DDP of torch 2.13 ends
    by SIGSEGV there."""
    body = """
init()
t = torch.ones(3)
dist.all_reduce(t)
if backend == "tutti":
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    model(t).sum().backward()
try:
    dist.all_reduce(torch.ones(3 + rank))
except RuntimeError as error:
    print(f"sum {t.sum().item()} {'Detected mismatch' in str(error)}\\n", end="", flush=True)
os._exit(0)
"""
    for backend in ("tutti", "gloo"):
        code, text = torchrun(body, backend, TORCH_DISTRIBUTED_DEBUG="DETAIL")
        assert code == 0 and text.count("sum 6.0 True") == 2, f"{backend}: {code}\n{text}"
    return "calls and DDP work and different calls are named, over tutti and (but for DDP) gloo"


def test_two_devices():
    """Two backends without a GPU. With NCCL the outcome is Gloo's: torch itself refuses it where it is built without, or finds no GPU.
    With a second backend that there is, tensors of the CPU and objects work."""
    body = """
init()
t = torch.full((3,), rank + 1.0)
dist.all_reduce(t)
objects = [None] * 2
dist.all_gather_object(objects, rank)
group = dist.new_group()
dist.all_reduce(t, group=group)
print(f"sum {t.sum().item()} {objects}\\n", end="", flush=True)
dist.destroy_process_group()
"""
    outcomes = []
    for backend in ("cpu:tutti,cuda:nccl", "cpu:gloo,cuda:nccl"):
        code, text = torchrun(body, backend, CUDA_VISIBLE_DEVICES="")
        outcomes.append((code != 0, text.count("sum 18.0 [0, 1]"), sorted(set(re.findall(r"^\w*Error: .*", text, re.MULTILINE)))))
    assert outcomes[0] == outcomes[1] and any(outcomes[0]), outcomes
    code, text = torchrun(body, "cpu:tutti,cuda:gloo", CUDA_VISIBLE_DEVICES="")
    assert code == 0 and text.count("sum 18.0 [0, 1]") == 2, f"{code}\n{text}"
    return f"cuda:nccl as with gloo ({'; '.join(outcomes[0][2]) or 'works'}), cuda:gloo works"


if __name__ == "__main__":
    tests = [value for name, value in list(globals().items()) if name.startswith("test_")]
    for test in tests:
        if sys.argv[1:] and test.__name__[5:] not in sys.argv[1:]:
            continue
        began = time.monotonic()
        said = test()
        print(f"{test.__name__[5:]}: {said}, {time.monotonic() - began:.1f} s", flush=True)
    print("processes: ok")
