"""Runs the cases of a program over tutti and over Gloo, and compares what they return. What the programs here share."""

import argparse
import math
import pathlib
import shutil
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from common import dist, on_ranks, torch  # noqa: E402

CASES = {}


class Skip(Exception):
    """A case that cannot run here, with the reason; raised before ranks start."""


def has_compiler():
    if not shutil.which("g++"):
        raise Skip("wants a C++ compiler (g++)")


def case(sizes=(2,), most=1e-6, limit=200, needs=None):
    """Registers a function of (rank, size) that returns numbers, in lists, tuples and dictionaries. `most`: the largest
    difference; `needs`: a function that raises Skip where the case cannot run."""
    def register(body):
        CASES[body.__name__] = (body, sizes, most, limit, needs)
        return body
    return register


def difference(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return max(map(difference, a, b), default=0.0) if len(a) == len(b) else math.inf
    if isinstance(a, dict) and isinstance(b, dict):
        return max((difference(a[k], b[k]) for k in a), default=0.0) if a.keys() == b.keys() else math.inf
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) if math.isfinite(a) and math.isfinite(b) else math.inf
    return 0.0 if a == b else math.inf


def taken(body, size, backend, limit):
    began = time.monotonic()
    return on_ranks(size, body, backend=backend, limit=limit), time.monotonic() - began


def main(description):
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="names of cases")
    only = parser.parse_args().only or list(CASES)
    failed = []
    for name in only:
        body, sizes, most, limit, needs = CASES[name]
        for size in sizes:
            try:
                if needs:
                    needs()
                (ours, our_time), (theirs, their_time) = (taken(body, size, backend, limit) for backend in ("tutti", "gloo"))
            except Skip as reason:
                print(f"{name}: skipped: {reason}", flush=True)
                continue
            except RuntimeError as error:
                print(f"{name} on {size} ranks: FAILED\n{error}", flush=True)
                failed.append(name)
                continue
            found = difference(ours, theirs)
            fine = found <= most and ours[0] not in (None, [], {})
            print(f"{name} on {size} ranks: {'equal' if found == 0 else f'difference {found:.1e}'}{'' if fine else ': FAILED'}, "
                  f"tutti {our_time:.1f} s, gloo {their_time:.1f} s", flush=True)
            if not fine:
                print(f"  tutti {str(ours)[:2000]}\n  gloo  {str(theirs)[:2000]}")
                failed.append(name)
    print(f"{pathlib.Path(sys.argv[0]).stem}: {'ok' if not failed else 'FAILED: ' + ', '.join(failed)}")
    raise SystemExit(bool(failed))


def network(width=16, layers=2):
    torch.manual_seed(1)
    inner = [layer for _ in range(layers - 1) for layer in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    return torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.Tanh(), *inner, torch.nn.Linear(width, 1))


def batch(rank, step, rows=8):
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(100 * step + rank))
    return x, x.sum(1, keepdim=True).sin()


def mean(loss):
    loss = loss.detach().float().clone()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def train(model, rank, optimizer=None, steps=4, first=0):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(first, first + steps):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
        losses.append(mean(loss))
    return losses
