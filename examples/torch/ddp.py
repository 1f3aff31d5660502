"""Data-parallel training with PyTorch over tutti: torchrun --nproc-per-node 2 examples/torch/ddp.py"""

import torch
import torch.distributed as dist
import tutti.torch  # registers the backend "tutti" with torch.distributed

dist.init_process_group("tutti")
torch.manual_seed(dist.get_rank())  # each rank generates different data
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(32, 16)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks: loss {loss.item():.4f}")
dist.destroy_process_group()
