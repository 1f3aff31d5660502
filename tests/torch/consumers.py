#!/usr/bin/env python3
"""What is built on process groups, over Gloo and over tutti: the losses of a few steps must agree.

  consumers.py [--ranks N ...] [--only NAME ...]    2 and 4 ranks by default
"""

import argparse
import copy
import tempfile

from common import dist, on_ranks, torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 8
TOLERANCE = {"ddp_fp16": 1e-4}  # of four ranks or more: the order of folds shows in 16 bits


def network(width=16):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def batch(rank, step, rows=8):
    numbers = torch.Generator().manual_seed(100 * step + rank)
    x = torch.randn(rows, 8, generator=numbers)
    return x, x.sum(1, keepdim=True).sin()


def mean(loss):
    loss = loss.detach().clone()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def train(model, rank, optimizer=None, steps=STEPS, first=0):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(first, first + steps):
        x, y = batch(rank, step)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(mean(loss))
    return losses


def ddp(rank, size):
    return train(DDP(network()), rank)


def ddp_fp16(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    model = DDP(network())
    model.register_comm_hook(None, fp16_compress_hook)
    return train(model, rank)


def ddp_powersgd(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    model = DDP(network(32))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model, rank)


def fsdp(rank, size):
    from torch.distributed.fsdp import fully_shard
    model = network()
    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return train(fully_shard(model, mesh=mesh), rank)


def fsdp_factor(rank, size):
    """With PREMUL_SUM, which Gloo does not have: there the learning rate has the factor."""
    from torch.distributed.fsdp import fully_shard
    model, factor, rate = network(), 4.0, 0.1
    model = fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    if dist.get_backend() == "tutti":
        model.set_gradient_divide_factor(factor)
    else:
        rate *= size / factor
    return train(model, rank, torch.optim.SGD(model.parameters(), lr=rate))


def parallel_plan():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
    return {"0": ColwiseParallel(), "2": RowwiseParallel()}


def tensor_parallel(rank, size):
    from torch.distributed.tensor.parallel import parallelize_module
    return train(parallelize_module(network(), init_device_mesh("cpu", (size,)), parallel_plan()), 0)


def mesh_2d(rank, size):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import parallelize_module
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "model"))
    model = parallelize_module(network(), mesh["model"], parallel_plan())
    return train(fully_shard(model, mesh=mesh["data"]), mesh.get_local_rank("data"))


def pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    torch.manual_seed(1)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(size)]
    layer = layers[rank]
    stage = PipelineStage(layer, rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer, losses = torch.optim.SGD(layer.parameters(), lr=0.1), []
    for step in range(STEPS):
        x = batch(0, step)[0]
        optimizer.zero_grad()
        found = []
        if size == 1 or rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=x.sin(), losses=found)
        else:
            schedule.step()
        optimizer.step()
        loss = torch.stack(found).mean().detach() if found else torch.zeros(())
        dist.broadcast(loss, size - 1)
        losses.append(loss.item())
    return losses


def zero(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DDP(network())
    return train(model, rank, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01))


def checkpoint(rank, size):
    """Losses after a load equal those of going on."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (size,))
    model = fully_shard(network(), mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    before = train(model, rank, optimizer, 4)
    folder = [tempfile.mkdtemp(prefix="tutti_torch.") if rank == 0 else None]
    dist.broadcast_object_list(folder)
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.save(state, checkpoint_id=folder[0])
    after = train(model, rank, optimizer, 4, first=4)
    fresh = fully_shard(network(), mesh=mesh)
    optimizer = torch.optim.Adam(fresh.parameters(), lr=0.01)
    state = dict(zip(("model", "optimizer"), get_state_dict(fresh, optimizer)))
    dcp.load(state, checkpoint_id=folder[0])
    set_state_dict(fresh, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    again = train(fresh, rank, optimizer, 4, first=4)
    assert again == after, f"after the load {again}, without {after}"
    dist.barrier()
    if rank == 0:
        import shutil
        shutil.rmtree(folder[0])
    return before + after


def averager(rank, size):
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    model, losses = network(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = PeriodicModelAverager(period=2, warmup_steps=2)
    for step in range(STEPS):
        losses += train(model, rank, optimizer, 1, first=step)
        average.average_parameters(model.parameters())
    return losses


def join(rank, size):
    """Rank r has r batches more than rank 0."""
    model = DDP(network())
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    with model.join():
        for step in range(4 + rank):
            x, y = batch(rank, step)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


CONSUMERS = {one.__name__: one for one in (ddp, ddp_fp16, ddp_powersgd, fsdp, fsdp_factor, tensor_parallel, mesh_2d, pipeline,
                                           zero, checkpoint, averager, join)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--only", nargs="+", default=list(CONSUMERS), choices=list(CONSUMERS))
    arguments = parser.parse_args()
    worst, failed = 0.0, []
    for size in arguments.ranks:
        for name in arguments.only:
            if name == "mesh_2d" and size < 4:
                continue
            try:
                ours, gloos = (on_ranks(size, copy.copy(CONSUMERS[name]), backend=b) for b in ("tutti", "gloo"))
            except RuntimeError as error:
                print(f"consumers: {name} at {size} ranks: FAILED\n{error}", flush=True)
                failed.append(name)
                continue
            difference = max(abs(a - b) for r in range(size) for a, b in zip(ours[r], gloos[r], strict=True))
            worst = max(worst, difference)
            fine = difference <= TOLERANCE.get(name, 1e-6) and ours[0][0] != ours[0][-1]
            print(f"consumers: {name} at {size} ranks: {len(ours[0])} losses, largest difference {difference:.1e}"
                  f"{'' if fine else ': FAILED'}", flush=True)
            failed += [] if fine else [name]
    print(f"consumers: {'ok' if not failed else 'FAILED: ' + ', '.join(failed)}, largest difference {worst:.1e}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
