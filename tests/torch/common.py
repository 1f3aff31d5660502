"""What the programs here share: ranks as processes, a store between them, the outcome of each."""

import datetime
import os
import sys
import tempfile
import traceback
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TUTTI_TUNING", "off")

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
import torch.distributed as dist
import torch.multiprocessing as mp

warnings.filterwarnings("ignore", category=FutureWarning)  # names that newer versions have others for


def start(rank, size, store, backend="tutti", timeout=60):
    """Joins the process group; `store` is the file that the ranks meet at."""
    torch.set_num_threads(1)
    if backend == "tutti":
        import tutti.torch  # noqa: F401
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=timeout))


def _rank(body, rank, size, store, backend, results, args):
    try:
        start(rank, size, store, backend)
        results.put((rank, body(rank, size, *args), None))
        dist.destroy_process_group()
    except Exception:  # noqa: BLE001: told to the parent
        results.put((rank, None, traceback.format_exc()))
        raise SystemExit(1) from None


def on_ranks(size, body, *args, backend="tutti", limit=120):
    """Runs body(rank, size, *args) on that many forked ranks; their results by rank. Raises where one failed."""
    context = mp.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        results = context.SimpleQueue()
        ranks = [context.Process(target=_rank, args=(body, r, size, f"{folder}/store", backend, results, args))
                 for r in range(size)]
        for one in ranks:
            one.start()
        found = {}
        for one in ranks:
            one.join(limit)
            if one.is_alive():
                for each in ranks:
                    each.kill()
                raise RuntimeError(f"{body.__name__}: no end within {limit} s")
        while not results.empty():
            rank, value, error = results.get()
            if error:
                raise RuntimeError(f"{body.__name__}: rank {rank} of {size}:\n{error}")
            found[rank] = value
        codes = [one.exitcode for one in ranks]
        if any(codes):
            raise RuntimeError(f"{body.__name__}: exit codes {codes}")
        return [found[r] for r in range(size)]
