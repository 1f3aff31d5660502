#!/usr/bin/env python3
"""Every communication hook of torch.distributed.algorithms.ddp_comm_hooks, with five buckets or more: losses beside those over Gloo.

  hooks.py [--ranks N ...] [--only NAME ...]    2 and 4 ranks by default

Over Gloo each call is waited for at once, so that callbacks run where they are attached: with more than one bucket the hooks that make
calls in callbacks do not end there otherwise. The two hooks that want streams of an accelerator (mixed precision, optimizers in
backward) torch does not run on CPUs.
"""

import argparse
import functools
import logging
import unittest.mock
import warnings

from common import dist, on_ranks, torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import (ddp_zero_hook, debugging_hooks, default_hooks, optimizer_overlap_hooks,
                                                         post_localSGD_hook, powerSGD_hook, quantization_hooks)
from torch.nn.parallel import DistributedDataParallel as DDP

BUCKETS, STEPS, RATE = 5, 6, 0.05
HALF = 3e-4  # the order of folds shows in 16 bits


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), *[layer for _ in range(BUCKETS - 2) for layer in (nn.Linear(16, 16), nn.Tanh())],
                         nn.Linear(16, 1))


def parallel(**named):
    """A model whose layers are a bucket each from the first step on."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = 1
    return DDP(network(), bucket_cap_mb=1e-4, **named)


def train(model, rank, optimizer=None, steps=STEPS):
    """The losses, and at last the sums of the parameters; `optimizer` is False where a hook makes the updates."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE) if optimizer is None else optimizer
    losses = []
    for step in range(steps):
        numbers = torch.Generator().manual_seed(100 * step + rank)
        x = torch.randn(8, 8, generator=numbers)
        model.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
        loss.backward()
        if optimizer:
            optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss)
        losses.append(loss.item() / dist.get_world_size())
    return losses + [parameter.detach().double().sum().item() for parameter in model.parameters()]


def power():
    return powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)


def plain(hook, state=lambda: None):
    """Trains with a hook and nothing else; counts its buckets of the last step."""
    def body(rank, size):
        model, seen = parallel(), []

        def counting(state, bucket):
            seen.append(bucket.index())
            return hook(state, bucket)

        model.register_comm_hook(state(), counting)
        found = train(model, rank)
        assert len(set(seen)) >= BUCKETS, f"the hook saw the buckets {sorted(set(seen))}"
        return found
    return body


def builtin(kind):
    def body(rank, size):
        model = parallel()
        model._register_builtin_comm_hook(kind)
        return train(model, rank)
    return body


def local_sgd(rank, size):
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer
    model, (pair, _) = parallel(), dist.new_subgroups(2)
    model.register_comm_hook(post_localSGD_hook.PostLocalSGDState(None, pair, start_localSGD_iter=2), post_localSGD_hook.post_localSGD_hook)
    return train(model, rank, PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), PeriodicModelAverager(2, 2)))


def then_optimizer(hook, state=lambda: None):
    def body(rank, size):
        from torch.distributed.optim.utils import as_functional_optim
        model = parallel()
        step = optimizer_overlap_hooks._OptimizerHookState(as_functional_optim(torch.optim.SGD, lr=RATE))
        model.register_comm_hook(state(), optimizer_overlap_hooks._hook_then_optimizer(hook, step))
        return train(model, rank, False)
    return body


def zero(make):
    def body(rank, size):
        from torch.distributed.optim import ZeroRedundancyOptimizer
        model = parallel(gradient_as_bucket_view=True)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=RATE)
        with unittest.mock.patch.object(dist, "get_backend", lambda group=None: "any"):  # Gloo's name is refused
            model.register_comm_hook(None, make(default_hooks.allreduce_hook, model, optimizer))
        return train(model, rank, optimizer)
    return body


def registered(rank, size):
    """By the names of DDPCommHookType: those that DDP allows without CUDA."""
    from torch.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    found = []
    for kind in ("ALLREDUCE", "FP16_COMPRESS", "POWER_SGD", "POWER_SGD_RANK2", "NOOP"):
        model = parallel()
        register_ddp_comm_hook(DDPCommHookType[kind], model, state=None)
        found += train(model, rank)
    return found


def quantized(hook):
    """These hooks read the one tensor that the future of NCCL's all_gather has; over Gloo and tutti it has a list."""
    class Stacked:
        def __init__(self, work):
            self.work = work

        def get_future(self):
            return self.work.get_future().then(lambda future: [torch.stack(future.value())])

    def body(rank, size):
        real = dist.all_gather
        with unittest.mock.patch.object(dist, "all_gather", lambda *args, **named: Stacked(real(*args, **named))):
            return plain(hook, lambda: dist.group.WORLD)(rank, size)
    return body


default, power_hook, batched = default_hooks, powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook
HOOKS = {  # with the largest difference of losses and sums of parameters
    "allreduce": (plain(default.allreduce_hook), 1e-6),
    "fp16_compress": (plain(default.fp16_compress_hook), HALF),
    "bf16_compress": (plain(default.bf16_compress_hook), 4 * HALF),
    "powerSGD": (plain(power_hook, power), 1e-5),
    "batched_powerSGD": (plain(batched, power), 1e-5),
    "fp16_compress_wrapper": (plain(default.fp16_compress_wrapper(power_hook), power), 4 * HALF),
    "bf16_compress_wrapper": (plain(default.bf16_compress_wrapper(batched), power), 16 * HALF),
    "quantization_pertensor": (quantized(quantization_hooks.quantization_pertensor_hook), 1e-6),
    "quantization_perchannel": (quantized(quantization_hooks.quantization_perchannel_hook), 1e-6),
    "post_localSGD": (local_sgd, 1e-6),
    "noop": (plain(debugging_hooks.noop_hook), 1e-6),
    "builtin_allreduce": (builtin(dist.BuiltinCommHookType.ALLREDUCE), 1e-6),
    "builtin_fp16": (builtin(dist.BuiltinCommHookType.FP16_COMPRESS), HALF),
    "then_optimizer": (then_optimizer(default.allreduce_hook), 1e-6),
    "powerSGD_then_optimizer": (then_optimizer(power_hook, power), 1e-5),
    "zero_step": (zero(ddp_zero_hook.hook_with_zero_step), 1e-6),
    "zero_step_interleaved": (zero(ddp_zero_hook.hook_with_zero_step_interleaved), 1e-6),
    "registered": (registered, 4 * HALF),
}


def call_one_by_one():
    """Waits for each call at once, so that callbacks run where they are attached."""
    def waited(call):
        @functools.wraps(call)
        def wrapper(*args, **named):
            work = call(*args, **named)
            if work is not None:
                work.wait()
            return work
        return wrapper

    for name in ("all_reduce", "all_gather", "broadcast"):
        setattr(dist, name, waited(getattr(dist, name)))


def hooks(rank, size, names):
    if dist.get_backend() == "gloo":
        call_one_by_one()
    # torch 2.13 asserts three dimensions where its batched hook has two.
    real = powerSGD_hook._orthogonalize
    powerSGD_hook._orthogonalize = lambda matrix, epsilon=0: real(matrix if matrix.dim() == 3 else matrix[None], epsilon)
    found = {}
    for name in names:
        torch.manual_seed(2)
        found[name] = HOOKS[name][0](rank, size)
    return found


def main():
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--only", nargs="+", default=list(HOOKS), choices=list(HOOKS))
    arguments = parser.parse_args()
    failed = []
    for size in arguments.ranks:
        ours, gloos = (on_ranks(size, hooks, arguments.only, backend=backend) for backend in ("tutti", "gloo"))
        for name in arguments.only:
            most = HOOKS[name][1]
            difference = max(abs(a - b) for r in range(size) for a, b in zip(ours[r][name], gloos[r][name], strict=True))
            fine = difference <= most and len(set(ours[0][name])) > STEPS
            print(f"hooks: {name} at {size} ranks: largest difference {difference:.1e} of {most:.0e}{'' if fine else ': FAILED'}")
            failed += [] if fine else [name]
    print(f"hooks: {'ok' if not failed else 'FAILED: ' + ', '.join(failed)}")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
