#!/usr/bin/env python3
"""Programs that end: DDP on two ranks, with destroy_process_group and without in turns. All must exit with code 0.

  exits.py [--runs N] [--backend tutti|gloo]
"""

import argparse
import collections
import subprocess
import sys
import tempfile

from common import dist, start, torch


def rank_main(rank, store, destroys, backend):
    start(rank, 2, store, backend)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    for _ in range(3):
        model(torch.ones(4, 64)).sum().backward()
    pending = dist.all_reduce(torch.ones(1000), async_op=True)
    pending.wait()
    if destroys:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--backend", default="tutti")
    arguments = parser.parse_args()
    codes = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        for run in range(arguments.runs):
            ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(r), f"{folder}/{run}", str(run % 2),
                                       arguments.backend], stderr=subprocess.PIPE, text=True) for r in range(2)]
            texts = [one.communicate(timeout=120)[1] for one in ranks]
            bad = [one.returncode for one in ranks if one.returncode]
            codes[bad[0] if bad else 0] += 1
            if bad and arguments.backend == "tutti":
                print(f"exits: run {run} ({'destroy' if run % 2 else 'plain exit'}): {bad}\n" + "\n".join(texts), flush=True)
    print(f"exits: {codes[0]} of {arguments.runs} runs over {arguments.backend} ended with code 0"
          + "".join(f", {n} with {c}" for c, n in codes.items() if c))
    raise SystemExit(codes[0] != arguments.runs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank_main(int(sys.argv[2]), sys.argv[3], sys.argv[4] == "1", sys.argv[5])
    else:
        main()
