"""The same training by PyTorch: torchrun ddp_peer.py MODEL SAMPLES GLOBAL_BATCH EPOCHS

Data lie in memory as tensors, and each batch is cut out by its indices, which is faster than a DataLoader.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def lenet():
    return nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 10))


class Residual(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
                                  nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
        changes = stride != 1 or inner != outer
        self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)) if changes else nn.Identity()

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet18():
    layers, inner = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for stage, outer in enumerate((64, 128, 256, 512)):
        for block in range(2):
            layers.append(Residual(inner, outer, 2 if stage and not block else 1))
            inner = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        samples, positions, width = x.shape
        parts = self.query_key_value(self.norm1(x)).split(width, 2)
        query, key, value = (part.view(samples, positions, self.heads, -1).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(x.shape))
        return x + self.dense(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, tokens=256, context=128, width=128, heads=4, layers=4):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return functional.linear(self.norm(self.blocks(x)), self.tokens.weight).flatten(0, 1)


def task(name, samples):
    if name == "gpt":
        text = torch.randint(0, 256, (samples, 129))
        network = Gpt()
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, weight_decay=0.1)
        return network, text[:, :-1], text[:, 1:], optimizer, 1.0
    network, shape = (lenet(), (1, 8, 8)) if name == "lenet" else (resnet18(), (3, 32, 32))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    return network, torch.randn(samples, *shape), torch.randint(0, 10, (samples,)), optimizer, 0


def main():
    name, samples, batch, epochs = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    network, inputs, targets, optimizer, clip = task(name, samples)
    parallel = DistributedDataParallel(network)
    for epoch in range(epochs):
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
        dist.barrier()
        begin = time.monotonic()
        for start in range(0, samples, batch):
            mine = order[start:start + batch][rank::ranks]
            optimizer.zero_grad()
            loss = functional.cross_entropy(parallel(inputs[mine]), targets[mine].flatten())
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(network.parameters(), clip)
            optimizer.step()
            loss.item()
        dist.barrier()
        seconds = time.monotonic() - begin
    if rank == 0:
        print(f"parameters {sum(p.numel() for p in network.parameters())} samples/s {samples / seconds:.1f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
