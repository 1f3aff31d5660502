"""One store of torch's for process groups one after the other, also after one in which a rank did not come."""

import datetime
import multiprocessing
import os
import sys

import torch
import torch.distributed as dist


def one(port, rank, size, seconds, result):
    os.environ["TUTTI_CONNECT_TIMEOUT"] = str(seconds)
    import tutti.torch  # noqa: F401
    store = dist.PrefixStore("job", dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False))
    try:
        dist.init_process_group("tutti", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds))
        value = torch.full((4,), float(rank + 1))
        dist.all_reduce(value)
        result.put((rank, value[0].item()))
        dist.barrier()
        dist.destroy_process_group()
    except Exception as error:
        result.put((rank, str(error)))


def start(port, ranks, size, seconds=60):
    fork = multiprocessing.get_context("spawn")
    result = fork.Queue()
    processes = [fork.Process(target=one, args=(port, rank, size, seconds, result)) for rank in ranks]
    for process in processes:
        process.start()
    said = dict(result.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    return said


def main():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = server.port
    whole = {0: 3.0, 1: 3.0}
    assert start(port, (0, 1), 2) == whole
    lacking = start(port, (1,), 2, seconds=1)
    assert "rank 0 has not joined" in lacking[1], lacking
    lacking = start(port, (0,), 2, seconds=1)
    assert "rank 1 has not joined" in lacking[0], lacking
    assert start(port, (0, 1, 2), 3) == {0: 6.0, 1: 6.0, 2: 6.0}
    assert start(port, (0, 1), 2) == whole
    print("groups of 2, 3 and 2 ranks met in one store, two starts that lacked a rank between them")


if __name__ == "__main__":
    sys.exit(main())
