#!/usr/bin/env python3
"""Packages that train or measure with torch.distributed: Hugging Face Trainer and Accelerate, DeepSpeed, torchmetrics: beside Gloo."""

import os
import tempfile

# No package looks for an accelerator, or for models and versions in the network.
os.environ |= {"DS_ACCELERATOR": "cpu", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
               "ACCELERATE_USE_CPU": "true", "DISABLE_TELEMETRY": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}

from beside import batch, case, dist, has_compiler, main, mean, network, torch, train  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms.join import Join  # noqa: E402
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402

import deepspeed  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from torchmetrics import MeanMetric  # noqa: E402
from torchmetrics.classification import BinaryAUROC, MulticlassAccuracy, MulticlassConfusionMatrix  # noqa: E402
from torchmetrics.regression import PearsonCorrCoef  # noqa: E402
from transformers import PrinterCallback, Trainer, TrainingArguments  # noqa: E402


class Regression(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return {"x": x, "labels": x.sum().sin()[None]}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x, labels):
        found = self.net(x)
        return {"loss": nn.functional.mse_loss(found, labels), "logits": found}


@case()
def trainer(rank, size):
    """Trains under DDP with accumulation, evaluates, and returns the losses that the Trainer has logged."""
    with tempfile.TemporaryDirectory(prefix="tutti_torch.") as folder:
        arguments = TrainingArguments(folder, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2,
                                      learning_rate=0.01, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, seed=1,
                                      disable_tqdm=True, ddp_find_unused_parameters=False)
        one = Trainer(Model(), arguments, train_dataset=Regression(), eval_dataset=Regression())
        one.remove_callback(PrinterCallback)
        one.train()
        evaluated = one.evaluate()["eval_loss"]
        dist.barrier()
    return [entry["loss"] for entry in one.state.log_history if "loss" in entry] + [float(evaluated)]


@case()
def accelerate(rank, size):
    ready = Accelerator(cpu=True)
    model = network()
    loader = torch.utils.data.DataLoader(Regression(), batch_size=4)
    model, optimizer, loader = ready.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05), loader)
    losses = []
    for rows in loader:
        loss = nn.functional.mse_loss(model(rows["x"]), rows["labels"])
        ready.backward(loss)
        norm = ready.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses += [ready.gather(loss.detach()[None]).mean().item(), float(norm)]
    return losses


def deepspeed_stage(rank, size, stage):
    model = network()
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
        "gradient_accumulation_steps": 1}, optimizer=torch.optim.Adam(model.parameters(), lr=0.01), dist_init_required=False)[0]
    losses = []
    for step in range(4):
        x, y = batch(rank, step)
        loss = nn.functional.mse_loss(engine(x), y)
        engine.backward(loss)
        engine.step()
        losses.append(mean(loss))
    return losses


@case(needs=has_compiler)
def deepspeed_zero(rank, size):
    import logging
    logging.disable(logging.WARNING)
    return {f"stage {stage}": deepspeed_stage(rank, size, stage) for stage in (1, 2, 3)}


@case(sizes=(2, 4))
def torchmetrics(rank, size):
    """Metrics whose states are summed, gathered, and gathered of uneven lengths."""
    metrics = [MeanMetric(), MulticlassAccuracy(4), MulticlassConfusionMatrix(4), BinaryAUROC(), PearsonCorrCoef()]
    numbers = torch.Generator().manual_seed(rank)
    for _ in range(3 + rank):
        logits, labels = torch.randn(10, 4, generator=numbers), torch.randint(0, 4, (10,), generator=numbers)
        for metric, values in zip(metrics, ((logits[:, 0],), (logits, labels), (logits, labels), (logits[:, 0].sigmoid(), labels % 2),
                                            (logits[:, 0], logits[:, 1])), strict=True):
            metric.update(*values)
    return [metric.compute().double().flatten().tolist() for metric in metrics]


@case()
def zero_redundancy_and_join(rank, size):
    """ZeroRedundancyOptimizer within Join, with inputs of uneven lengths."""
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for step in range(3 + 2 * rank):
            x, y = batch(rank, step)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    return [p.detach().double().sum().item() for p in model.parameters()] + train(model, rank, optimizer, 2)


if __name__ == "__main__":
    main(__doc__)
