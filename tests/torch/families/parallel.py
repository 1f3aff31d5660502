#!/usr/bin/env python3
"""Parts of models on different ranks: sequence and loss parallel, schedules of pipelines, context parallel: beside Gloo."""

from beside import batch, case, dist, main, network, torch, train
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
                                               parallelize_module)


class Block(nn.Module):
    """A residual block with a norm, as transformers have."""

    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


@case(sizes=(2, 4))
def sequence_and_loss_parallel(rank, size):
    torch.manual_seed(1)
    model = nn.Sequential()
    model.embed, model.block, model.norm, model.head = nn.Embedding(32, 16), Block(), nn.LayerNorm(16), nn.Linear(16, 32)
    parallelize_module(model, init_device_mesh("cpu", (size,)), {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "block": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Shard(1)),
        "block.norm": SequenceParallel(),
        "block.up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "block.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5), []
    for step in range(4):
        tokens = torch.randint(0, 32, (4, 8), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
        optimizer.step()
        losses.append(loss.full_tensor().item() if hasattr(loss, "full_tensor") else loss.item())
    return losses


def stages_of(rank, size, name):
    """The numbers of a rank's stages: one, or two, in a loop or in a V."""
    if name in ("GPipe", "1F1B"):
        return [rank]
    return [rank, 2 * size - 1 - rank] if name in ("ZBVZeroBubble", "DualPipeV") else [rank, rank + size]


def run_schedule(rank, size, name):
    mine = stages_of(rank, size, name)
    torch.manual_seed(1)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(size * len(mine))]
    stages = [PipelineStage(layers[i], i, len(layers), torch.device("cpu")) for i in mine]
    schedule = get_schedule_class(name)(stages if len(mine) > 1 else stages[0], n_microbatches=2 * size, loss_fn=nn.functional.mse_loss)
    optimizer, losses = torch.optim.SGD([p for i in mine for p in layers[i].parameters()], lr=0.1), []
    first, last = 0 in mine, len(layers) - 1 in mine
    for step in range(3):
        x, found = batch(0, step, 4 * size)[0], []
        optimizer.zero_grad()
        schedule.step(*([x] if first else []), **({"target": x.sin(), "losses": found} if last else {}))
        optimizer.step()
        losses += [loss.item() for loss in found]
    return losses + [p.detach().double().sum().item() for i in mine for p in layers[i].parameters()]


@case(sizes=(2, 4))
def pipelines(rank, size):
    names = "GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV", "LoopedBFS"
    return {name: run_schedule(rank, size, name) for name in names}


@case(sizes=(2, 4))
def context_parallel(rank, size):
    """Attention over a sequence that is split over the ranks, whose keys and values go round: as on one rank. The ring alone, since
    torch has no context_parallel() for the attention of CPUs."""
    torch.manual_seed(1)
    whole, found = [torch.randn(2, 4, 16 * size, 8) for _ in range(3)], []
    parts = [one.chunk(size, 2)[rank] for one in whole]
    ring._cp_options.enable_load_balance = False
    for ring._cp_options.rotate_method in ring._RotateMethod.ALL_TO_ALL, ring._RotateMethod.ALL_GATHER:
        for causal in False, True:
            out = ring._templated_ring_attention(dist.group.WORLD, 2, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu,
                                                 *parts, is_causal=causal)[0]
            want = nn.functional.scaled_dot_product_attention(*whole, is_causal=causal).chunk(size, 2)[rank]
            assert torch.allclose(out, want, atol=1e-5), f"away from one rank's by {(out - want).abs().max()}"
            found.append(out.double().sum().item())
    return found


@case(sizes=(4,))
def two_dimensions(rank, size):
    """Tensor parallel within pairs, fully_shard between them, with gradients clipped by their norm."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = parallelize_module(network(), mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(fully_shard(model, mesh=mesh["data"]), mesh.get_local_rank("data"))


if __name__ == "__main__":
    main(__doc__)
