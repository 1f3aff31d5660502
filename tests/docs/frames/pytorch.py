import under_torchrun
import torch
# the block
torch.distributed.destroy_process_group()
