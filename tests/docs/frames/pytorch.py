import sys

try:
    import torch
except ImportError:
    sys.exit(77)  # a package is lacking
# the block
torch.distributed.destroy_process_group()
