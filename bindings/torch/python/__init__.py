"""PyTorch's distributed backend over tutti: `import tutti.torch`, then `init_process_group("tutti")`.

Everything of torch.distributed that takes a process group works with it: DistributedDataParallel, fully_shard, DTensor,
pipelines, checkpoints. See the book's chapter "Use it from PyTorch".
"""

import atexit
import importlib
import pathlib
import sys

import torch
import torch.distributed as dist

__all__ = ["Backend", "Options", "create", "register"]


def _extension():
    """The compiled module for this torch: c10d's classes differ from one minor version to the next."""
    release = "".join(torch.__version__.split(".")[:2])
    name = f"_c10d_{release}_cp{sys.version_info[0]}{sys.version_info[1]}"
    try:
        return importlib.import_module(f".{name}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        here = pathlib.Path(__file__).parent
        built = ", ".join(sorted(f.name for f in here.glob("_c10d_*.so"))) or "none"
        raise ImportError(
            f"tutti.torch has no module for torch {torch.__version__} and Python {sys.version_info[0]}."
            f"{sys.version_info[1]} (there: {built}). Build tutti with -DTUTTI_TORCH_PYTHON={sys.executable}, or install "
            "one of these versions of torch") from None


if not dist.is_available():
    raise ImportError("tutti.torch: this torch has been built without torch.distributed")
_c10d = _extension()
Backend, Options = _c10d.Backend, _c10d.Options


def create(opts, options=None, name="tutti"):
    """Makes the Backend of a process group; what torch calls. `options` is an Options or None."""
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"pg_options of the backend tutti must be a tutti.torch.Options, not {type(options).__name__}")
    return Backend(store=opts.store, rank=opts.group_rank, size=opts.group_size, name=name, timeout=opts.timeout,
                   members=list(opts.global_ranks_in_group), id=opts.group_id, options=options)


def register():
    """Makes the name "tutti" known to torch.distributed. Importing this package has done so; again is harmless."""
    if not hasattr(dist.Backend, "TUTTI"):
        dist.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu", "cuda"])


register()
# Threads of ours must not free tensors while the interpreter ends.
atexit.register(_c10d.leave_all, 2.0)
