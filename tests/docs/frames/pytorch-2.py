import os
import sys

try:
    import torch
except ImportError:
    sys.exit(77)  # a package is lacking
os.environ.setdefault("RANK", os.environ.get("TUTTI_RANK", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("TUTTI_SIZE", "1"))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29518")
import tutti.torch

torch.distributed.init_process_group("tutti")
try:
    tutti.torch.communicator()
except ImportError:
    sys.exit(77)  # the Python module of this build is lacking
loss = torch.tensor(1.0)
# the block
torch.distributed.destroy_process_group()
