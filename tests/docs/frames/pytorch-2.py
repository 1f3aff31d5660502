import sys

import under_torchrun
import torch
import tutti.torch

torch.distributed.init_process_group("tutti")
try:
    tutti.torch.communicator()
except ImportError:
    sys.exit(77)  # the Python module of this build is lacking
loss = torch.tensor(1.0)
# the block
torch.distributed.destroy_process_group()
