#!/usr/bin/env python3
"""Every call of torch.distributed against a local computation: types, layouts, operators, uneven lists, wrong arguments.

  correct.py [--ranks N ...]    2 and 3 by default
"""

import argparse

from common import dist, on_ranks, torch

TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
         torch.float32, torch.float64, torch.complex64]
Op = dist.ReduceOp


def values(rank, shape, dtype):
    """A tensor that differs from rank to rank; small whole numbers, so that all sums and products are exact."""
    numbers = torch.arange(torch.Size(shape).numel()).reshape(shape)
    numbers = (numbers * 7 + rank * 3) % 5
    if dtype == torch.bool:
        return (numbers % 2).bool()
    if dtype.is_complex:
        return torch.complex(numbers.float(), (numbers + rank).float())
    return numbers.to(dtype)


def layouts(rank, dtype):
    """(name, tensor) of each layout, with the values of a contiguous tensor of its shape."""
    yield "contiguous", values(rank, (4, 6), dtype)
    yield "transposed", values(rank, (4, 6), dtype).t()
    wide = torch.zeros((4, 9), dtype=dtype)
    wide[:, 1:7] = values(rank, (4, 6), dtype)
    yield "slice", wide[:, 1:7]
    yield "empty", values(rank, (0, 3), dtype)
    yield "scalar", values(rank, (), dtype)


def expected(op, size, pick, dtype):
    """The reduction of pick(rank) over all ranks."""
    parts = [pick(r) for r in range(size)]
    if dtype == torch.bool:
        total = parts[0].clone()
        for part in parts[1:]:
            if op in (Op.SUM, Op.MAX, Op.BOR):
                total = total | part
            elif op in (Op.PRODUCT, Op.MIN, Op.BAND):
                total = total & part
            else:
                total = total ^ part
        return total
    total = parts[0].clone()
    for part in parts[1:]:
        total = {Op.SUM: torch.add, Op.AVG: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum, Op.MAX: torch.maximum,
                 Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor}[op](total, part)
    return total / size if op == Op.AVG else total


def operators(dtype):
    if dtype.is_complex:
        return [Op.SUM, Op.AVG]
    bits = [] if dtype.is_floating_point else [Op.BAND, Op.BOR, Op.BXOR]
    return [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, *bits, *([Op.AVG] if dtype.is_floating_point else [])]


def same(got, want, what):
    exact = not (got.dtype in (torch.float16, torch.bfloat16))
    if exact and got.dtype.is_floating_point or got.dtype.is_complex:
        assert torch.allclose(got, want, rtol=1e-6, atol=0), f"{what}: {got} is not {want}"
    elif exact:
        assert torch.equal(got, want), f"{what}: {got} is not {want}"
    else:
        assert torch.allclose(got.float(), want.float(), rtol=1e-2), f"{what}: {got} is not {want}"


def check_reductions(rank, size, dtype):
    cases = 0
    for op in operators(dtype):
        for index, (layout, tensor) in enumerate(layouts(rank, dtype)):
            want = expected(op, size, lambda r: list(layouts(r, dtype))[index][1], dtype)
            what = f"{op} {dtype} {layout}"
            dist.all_reduce(tensor, op)
            same(tensor, want, f"all_reduce {what}")
            for root in range(size):
                tensor = list(layouts(rank, dtype))[index][1]
                dist.reduce(tensor, root, op)
                if rank == root:
                    same(tensor, want, f"reduce to {root} {what}")
            if layout == "scalar" or dtype.is_complex:
                continue
            parts = [list(layouts(rank + r, dtype))[index][1] for r in range(size)]
            out = torch.empty_like(parts[0])
            dist.reduce_scatter(out, parts, op)
            want = expected(op, size, lambda r: list(layouts(r + rank, dtype))[index][1], dtype)
            same(out, want, f"reduce_scatter {what}")
            out = torch.empty_like(parts[0])
            dist.reduce_scatter_tensor(out, torch.cat(parts), op)
            same(out, want, f"reduce_scatter_tensor {what}")
            cases += 3 + size
    return cases


def check_moves(rank, size, dtype):
    for index, (layout, mine) in enumerate(layouts(rank, dtype)):
        every = [list(layouts(r, dtype))[index][1] for r in range(size)]
        what = f"{dtype} {layout}"
        for root in range(size):
            tensor = list(layouts(rank, dtype))[index][1]
            dist.broadcast(tensor, root)
            same(tensor, every[root], f"broadcast {what}")
            out = [torch.zeros_like(mine) for _ in range(size)] if rank == root else None
            dist.gather(mine, out, root)
            for got, want in zip(out or [], every):
                same(got, want, f"gather {what}")
            tensor = torch.zeros_like(mine)
            dist.scatter(tensor, every if rank == root else None, root)
            same(tensor, mine, f"scatter {what}")
        out = [torch.zeros_like(mine) for _ in range(size)]
        dist.all_gather(out, mine)
        for got, want in zip(out, every):
            same(got, want, f"all_gather {what}")
        if layout != "scalar":
            flat = torch.zeros((size * mine.shape[0], *mine.shape[1:]), dtype=dtype)
            dist.all_gather_into_tensor(flat, mine)
            same(flat, torch.cat(every), f"all_gather_into_tensor {what}")
            flat = torch.zeros_like(torch.cat(every))
            dist.all_to_all_single(flat, torch.cat([mine] * size))
            same(flat, torch.cat(every), f"all_to_all_single {what}")
        if layout in ("contiguous", "empty", "scalar"):
            tensor = torch.zeros_like(mine)
            works = [dist.isend(mine, (rank + 1) % size), dist.irecv(tensor, (rank - 1) % size)]
            for work in works:
                work.wait()
            same(tensor, every[(rank - 1) % size], f"send {what}")


def check_uneven(rank, size):
    out = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(out, torch.full((rank + 1,), float(rank)))
    for r, got in enumerate(out):
        same(got, torch.full((r + 1,), float(r)), "all_gather of uneven lists")
    give = [torch.full((rank + to,), rank * 10.0 + to) for to in range(size)]
    take = [torch.zeros(r + rank) for r in range(size)]
    dist.all_to_all(take, give)
    for r, got in enumerate(take):
        same(got, torch.full((r + rank,), r * 10.0 + rank), "all_to_all of uneven lists")
    inputs = torch.cat([torch.full((to + 1, 2), rank * 10.0 + to) for to in range(size)])
    out = torch.zeros(((rank + 1) * size, 2))
    dist.all_to_all_single(out, inputs, [rank + 1] * size, [to + 1 for to in range(size)])
    same(out, torch.cat([torch.full((rank + 1, 2), r * 10.0 + rank) for r in range(size)]), "all_to_all_single with splits")
    lists = [torch.full((r + 2,), rank + 1.0) for r in range(size)]
    out = torch.zeros(rank + 2)
    dist.reduce_scatter(out, lists)
    same(out, torch.full((rank + 2,), size * (size + 1) / 2), "reduce_scatter of uneven lists")


def check_beyond(rank, size):
    """What Gloo refuses or does not have: a factor, several at once, memory of the group, bool's sum."""
    tensor = torch.ones(5)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    same(tensor, torch.full((5,), size * 0.5), "PREMUL_SUM")
    truth = torch.tensor([True, rank == 0])
    dist.all_reduce(truth)
    assert truth.view(torch.uint8).tolist() == [1, 1], "the sum of True is True"
    several = [torch.full((n,), rank + 1.0) for n in (1, 1000, 7)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for one in several:
            dist.all_reduce(one)
    manager.wait()
    for one in several:
        same(one, torch.full_like(one, size * (size + 1) / 2), "all_reduce in a coalescing manager")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    memory = backend.allocate_tensor(1000, dtype=torch.float32, device=torch.device("cpu"))
    memory.fill_(rank + 1)
    dist.all_reduce(memory)
    same(memory, torch.full((1000,), size * (size + 1) / 2), "all_reduce of memory of the group")
    conjugate = torch.complex(torch.ones(3), torch.ones(3)).conj()
    out = torch.zeros(3 * size, dtype=torch.complex64)  # torch's own layer refuses these
    backend._allgather_base(out, conjugate).wait()
    same(out, torch.complex(torch.ones(3 * size), -torch.ones(3 * size)), "all_gather of a conjugate")


def expanded(rank):
    """(name, tensor) of tensors whose elements share memory."""
    yield "rows", (torch.arange(1.0, 5.0) + rank).view(1, 4).expand(3, 4)
    yield "columns", (torch.arange(1.0, 5.0) + rank).view(4, 1).expand(4, 3)
    yield "scalar", torch.tensor(1.0 + rank).expand(5)
    yield "both", torch.tensor(1.0 + rank).view(1, 1, 1).expand(2, 1, 3)


def check_expanded(rank, size):
    """Each value is taken as often as it appears, and its memory written once. Gloo writes behind it."""
    every = [list(expanded(r)) for r in range(size)]
    for index, (name, mine) in enumerate(expanded(rank)):
        want = sum(one[index][1] for one in every)
        one = list(expanded(rank))[index][1]
        dist.all_reduce(one)
        same(one, want, f"all_reduce of expanded {name}")
        one = list(expanded(rank))[index][1]
        dist.reduce(one, size - 1)
        if rank == size - 1:
            same(one, want, f"reduce of expanded {name}")
        one = list(expanded(rank))[index][1]
        dist.broadcast(one, size - 1)
        same(one, every[size - 1][index][1], f"broadcast of expanded {name}")
        out = [torch.zeros(mine.shape) for _ in range(size)]
        dist.all_gather(out, mine)
        for got, of_rank in zip(out, every):
            same(got, of_rank[index][1], f"all_gather of expanded {name}")
        out = torch.zeros(mine.shape)
        dist.reduce_scatter(out, [mine] * size)
        same(out, want, f"reduce_scatter of expanded {name}")


def wrong_calls(rank, size):
    backend, two = dist.group.WORLD._get_backend(torch.device("cpu")), [torch.ones(2), torch.ones(2)]
    one, root = torch.ones(2), dist.BroadcastOptions()
    root.rootRank = size
    gather = dist.GatherOptions()
    gather.rootRank = 0
    return {
        "AVG of integers": lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), Op.AVG),
        "BAND of floats": lambda: dist.all_reduce(torch.ones(2), Op.BAND),
        "AVG of bool": lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), Op.AVG),
        "MAX of complex": lambda: backend.allreduce([torch.ones(2, dtype=torch.complex64)], _options(Op.MAX)),
        "two tensors": lambda: backend.broadcast(two, root),
        "a root that is no rank": lambda: backend.broadcast([one], root),
        "a list that is too short": lambda: backend.allgather([[one] * (size - 1)], [one]),
        "a list of another type": lambda: backend.allgather([[one.int()] * size], [one]),
        "an output of the wrong size": lambda: backend._allgather_base(torch.ones(2 * size + 1), one),
        "an input of the wrong size": lambda: backend._reduce_scatter_base(one, torch.ones(2 * size + 1)),
        "splits of the wrong sum": lambda: backend.alltoall_base(torch.ones(size), torch.ones(size), [2] * size, [1] * size),
        "a negative tag": lambda: backend.send([one], (rank + 1) % size, -1),
        "a strided message": lambda: backend.send([torch.ones(4, 4)[:, 1]], (rank + 1) % size, 0),
        "outputs that share memory": lambda: dist.all_gather([torch.zeros(1).expand(2) for _ in range(size)], one),
        "outputs away from the root": lambda: backend.gather([[one] * (size - (rank == 0))], [one], gather),
    }


def _options(op):
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def check_errors(rank, size):
    calls = wrong_calls(rank, size)
    for what, call in calls.items():
        try:
            call()
        except (RuntimeError, ValueError):
            pass
        else:
            raise AssertionError(f"{what} is not refused")
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        same(tensor, torch.full((3,), float(size)), f"the call after {what}")
    return len(calls)


def everything(rank, size):
    cases = sum(check_reductions(rank, size, dtype) for dtype in TYPES)
    for dtype in TYPES:
        check_moves(rank, size, dtype)
    check_uneven(rank, size)
    check_beyond(rank, size)
    check_expanded(rank, size)
    return cases, check_errors(rank, size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    for count in parser.parse_args().ranks:
        reductions, refused = on_ranks(count, everything)[0]
        print(f"correct: {count} ranks, {len(TYPES)} types, {reductions} reductions, all moves, {refused} wrong calls refused: ok")
