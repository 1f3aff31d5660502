#!/usr/bin/env python3
"""DDP over tutti beside DDP over Gloo: what a step costs more than the same step without communication.

  ddp_time.py [--parameters 25M] [--ranks 2] [--rounds 20] [--sizes]

One process group of each, one network under DDP over either and under no_sync, in turns round by round. Medians, with the range from
the first to the third quarter. Required on an idle machine: Gloo's communication takes at least 1.6 times ours, and 2.2 times with
gradient_as_bucket_view. --sizes: all_reduce of 4 B to 25 MiB too, for the report.
"""

import argparse
import statistics
import time

from common import dist, on_ranks, torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

REQUIRED = {False: 1.6, True: 2.2}


def step(model, x, synchronizes):
    if synchronizes:
        model(x).sum().backward()
    else:
        with model.no_sync():
            model(x).sum().backward()


def timed(what, *args):
    dist.barrier()
    began = time.perf_counter()
    what(*args)
    return time.perf_counter() - began


def steps(rank, size, parameters, rounds, as_view):
    width = round((parameters / 4) ** 0.5)
    gloo = dist.new_group(backend="gloo")
    torch.manual_seed(1)
    models = {name: DDP(nn.Sequential(*[nn.Linear(width, width) for _ in range(4)]), process_group=group,
                        gradient_as_bucket_view=as_view) for name, group in (("tutti", None), ("gloo", gloo))}
    x, times = torch.randn(8, width), {"tutti": [], "gloo": [], "alone": []}
    for turn in range(rounds + 2):
        for name in ("gloo", "alone", "tutti"):
            took = timed(step, models["gloo" if name == "gloo" else "tutti"], x, name != "alone")
            if turn >= 2:
                times[name].append(took)
    return times


def calls(rank, size, rounds):
    gloo, found = dist.new_group(backend="gloo"), {}
    for count in (1, 1 << 10, 1 << 14, 1 << 18, 25 << 18):
        tensor, repeats = torch.ones(count), max(1, min(100, (1 << 20) // count))
        for turn in range(rounds + 1):
            for name, group in (("tutti", None), ("gloo", gloo)):
                took = timed(lambda: [dist.all_reduce(tensor, group=group) for _ in range(repeats)]) / repeats
                tensor.fill_(1)
                if turn:
                    found.setdefault((count * 4, name), []).append(took)
    return found


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle * 1e3:.2f} ms ({low * 1e3:.2f}..{high * 1e3:.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", default="25M")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sizes", action="store_true")
    arguments = parser.parse_args()
    parameters = int(float(arguments.parameters.rstrip("M")) * (1e6 if arguments.parameters.endswith("M") else 1))
    fine = True
    for as_view in (False, True):
        times = on_ranks(arguments.ranks, steps, parameters, arguments.rounds, as_view, limit=1200)[0]
        # Of one round, so that what slows the machine down slows all three.
        ours, gloos = ([t - a for t, a in zip(times[n], times["alone"])] for n in ("tutti", "gloo"))
        ratio = statistics.median(gloos) / max(statistics.median(ours), 1e-9)
        fine &= ratio >= REQUIRED[as_view]
        print(f"ddp_time: {arguments.ranks} ranks, {arguments.parameters} parameters, {arguments.rounds} rounds, "
              f"gradient_as_bucket_view={as_view}: communication tutti {spread(ours)}, gloo {spread(gloos)}, "
              f"gloo/tutti {ratio:.2f} (required {REQUIRED[as_view]}); step without {spread(times['alone'])}", flush=True)
    if arguments.sizes:
        found = on_ranks(arguments.ranks, calls, arguments.rounds, limit=600)[0]
        for size in sorted({size for size, _ in found}):
            ours, gloos = (statistics.median(found[size, n]) for n in ("tutti", "gloo"))
            print(f"ddp_time: all_reduce of {size} bytes: tutti {ours * 1e6:.1f} us, gloo {gloos * 1e6:.1f} us, "
                  f"gloo/tutti {gloos / ours:.1f}")
    raise SystemExit(not fine)


if __name__ == "__main__":
    main()
