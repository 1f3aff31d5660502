import sys

try:
    import torch
except ImportError:
    sys.exit(77)  # a package is lacking
import tutti.torch

torch.distributed.init_process_group("tutti")
loss = torch.tensor(1.0)
# the block
torch.distributed.destroy_process_group()
