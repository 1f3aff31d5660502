#!/usr/bin/env python3
"""fully_shard and FSDP in the ways that programs use them, checkpoints between numbers of ranks, and compiled: beside Gloo."""

import shutil
import sys
import tempfile

from beside import batch, case, dist, has_compiler, main, mean, network, on_ranks, torch, train
from torch import nn
import torch._inductor.config
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def sharded(mesh, **named):
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, **named)
    return fully_shard(model, mesh=mesh, **named)


@case(most=2e-3)
def shard_bf16(rank, size):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return train(sharded(init_device_mesh("cpu", (size,)), mp_policy=policy), rank)


@case(sizes=(4,))
def shard_2x2(rank, size):
    return train(sharded(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))), rank)


@case()
def shard_accumulating(rank, size):
    model, losses = sharded(init_device_mesh("cpu", (size,))), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(3):
        for micro in range(3):
            model.set_requires_gradient_sync(micro == 2)
            x, y = batch(rank, 10 * step + micro)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        losses += [mean(loss), norm.full_tensor().item()]
    return losses


@case()
def shard_offloaded(rank, size):
    return train(sharded(init_device_mesh("cpu", (size,)), offload_policy=CPUOffloadPolicy(pin_memory=False)), rank)


@case()
def fsdp1(rank, size):
    found = []
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        model = FullyShardedDataParallel(network(), sharding_strategy=strategy, device_id=torch.device("cpu"),
                                         auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), use_orig_params=True)
        found += train(model, rank)
    return found


def state_of(model, optimizer):
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))


def saves(rank, size, folder):
    """Trains on this many ranks, saves twice, and says how it would go on."""
    model = sharded(init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, 0, optimizer)
    dcp.save(state_of(model, optimizer), checkpoint_id=f"{folder}/plain")
    # A group of Gloo beside the default one: async_save wants its name, and makes its calls from a thread.
    group = dist.new_group(backend="gloo") if dist.get_backend() != "gloo" else None
    dcp.async_save(state_of(model, optimizer), checkpoint_id=f"{folder}/async", process_group=group).result()
    return train(model, 0, optimizer, first=4)


def loads(rank, size, folder):
    found = []
    for name in ("plain", "async"):
        model = sharded(init_device_mesh("cpu", (size,)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        state = state_of(model, optimizer)
        dcp.load(state, checkpoint_id=f"{folder}/{name}")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        found.append(train(model, 0, optimizer, first=4))
    return found


def checkpoint_4_to_2():
    """Four ranks save, two ranks go on: all see the same batches, so the losses are those of going on."""
    folder = tempfile.mkdtemp(prefix="tutti_torch.")
    try:
        after = on_ranks(4, saves, folder)[0]
        for backend in ("tutti", "gloo"):
            again = on_ranks(2, loads, folder, backend=backend)[0]
            worst = max(abs(a - b) for one in again for a, b in zip(one, after, strict=True))
            assert worst < 1e-6, f"over {backend} the losses differ by {worst}: {again}, {after}"
    finally:
        shutil.rmtree(folder)
    print("checkpoint_4_to_2: right, dcp.save and async_save, loaded over tutti and over gloo", flush=True)


def compiled(rank, backend):
    """A model with tensor parallel and fully_shard, compiled."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = parallelize_module(network(), mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(torch.compile(fully_shard(model, mesh=mesh["data"]), backend=backend), mesh.get_local_rank("data"), steps=2)


@case(sizes=(4,), most=1e-5, limit=600)
def compiled_2d(rank, size):
    return compiled(rank, "aot_eager")


@case(sizes=(4,), most=1e-5, limit=600, needs=has_compiler)
def compiled_2d_inductor(rank, size):
    torch._inductor.config.compile_threads = 1  # in this process, whose children the test's time-out ends
    return compiled(rank, "inductor")


if __name__ == "__main__":
    if len(sys.argv) == 1 or "checkpoint_4_to_2" in sys.argv:
        checkpoint_4_to_2()
        sys.argv = [one for one in sys.argv if one != "checkpoint_4_to_2"]
    main(__doc__)
