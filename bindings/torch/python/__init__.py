"""PyTorch's distributed backend over tutti: `import tutti.torch`, then `init_process_group("tutti")`.

Everything in torch.distributed that takes a process group works with it: DistributedDataParallel, fully_shard, DTensor,
pipelines, checkpoints. See the book's chapter "Use it from PyTorch".
"""

import atexit
import importlib
import pathlib
import subprocess
import sys

import torch
import torch.distributed as dist

__all__ = ["Backend", "Options", "communicator", "create", "register"]


def _extension():
    """The extension module for this version of torch; c10d's C++ classes change with each minor version."""
    release = "".join(torch.__version__.split(".")[:2])
    name = f"_c10d_{release}_cp{sys.version_info[0]}{sys.version_info[1]}"
    try:
        return importlib.import_module(f".{name}", __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    here = pathlib.Path(__file__).parent
    sources = sorted(map(str, here.glob("src/bindings/torch/*.cpp")))
    why = "and none of its sources to compile one"
    if sources:
        try:
            return _compiled(name, here, sources)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            why = f"and compiling one failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    built = ", ".join(sorted(f.name for f in here.glob("_c10d_*.so"))) or "none"
    raise ImportError(
        f"tutti.torch has no module for torch {torch.__version__} and Python {sys.version_info[0]}."
        f"{sys.version_info[1]} (there: {built}), {why}. Install g++ and ninja, or build tutti with "
        f"-DTUTTI_TORCH_PYTHON={sys.executable}, or install one of these versions of torch")


def _compiled(name, here, sources):
    """Compiles the module for this version of torch, once, into torch's extensions folder (TORCH_EXTENSIONS_DIR)."""
    from torch.utils import cpp_extension

    from tutti._place import PLACES

    include, lib = PLACES["include"], PLACES["lib"]
    link = "-ltutti" if (pathlib.Path(lib) / "libtutti.so").exists() else f"-l:{next(pathlib.Path(lib).glob('libtutti.so.*')).name}"  # a wheel has no links
    if not pathlib.Path(cpp_extension._get_build_directory(name, verbose=False), f"{name}.so").is_file():
        print(f"tutti.torch: compiling the backend for torch {torch.__version__}, once; it takes a few minutes", file=sys.stderr)
    return cpp_extension.load(
        name, sources, extra_cflags=["-std=c++20", "-O2", "-DUSE_DISTRIBUTED"],
        extra_include_paths=[str(here / "src"), f"{include}/tutti", include],
        extra_ldflags=[f"-L{lib}", link, f"-Wl,-rpath,{lib}"])


if not dist.is_available():
    raise ImportError("tutti.torch: this torch has been built without torch.distributed")
_c10d = _extension()
Backend, Options = _c10d.Backend, _c10d.Options


def create(opts, options=None, name="tutti"):
    """Creates the Backend of a process group; called by torch. `options` is an Options or None."""
    if options is not None and not isinstance(options, Options):
        raise TypeError(f"pg_options of the backend tutti must be a tutti.torch.Options, not {type(options).__name__}")
    return Backend(store=opts.store, rank=opts.group_rank, size=opts.group_size, name=name, timeout=opts.timeout,
                   members=list(opts.global_ranks_in_group), id=opts.group_id, options=options)


def communicator(group=None):
    """The tutti.Communicator of a process group (None: the default group), for calls that torch does not have.

    It has the ranks of the group. All ranks must issue its calls and torch's calls on the group in the same order;
    the calls of `communicator().dup()` are independent. It remains valid after the process group is destroyed.
    Raises ValueError if the group's backend is not tutti, or this rank is not in the group; ImportError if only the
    backend was built, without the module tutti.
    """
    try:
        from tutti import Communicator
    except ImportError as error:
        raise ImportError("tutti.torch.communicator() needs the Python module of the same build beside the backend: "
                          "install tutti with pip, or build the target tutti_python too") from error

    group = dist.group.WORLD if group is None else group
    if group is None:
        raise ValueError("tutti.torch.communicator(): there is no default process group; call init_process_group first")
    if not isinstance(group, dist.ProcessGroup):
        raise ValueError("tutti.torch.communicator(): this rank is not in the process group")
    for device in group._device_types:
        backend = group._get_backend(device)
        if isinstance(backend, Backend):
            return Communicator._from_capsule(_c10d.communicator(backend))
    raise ValueError(f"tutti.torch.communicator(): the process group's backend is {dist.get_backend(group)}, not tutti")


def register():
    """Registers the backend "tutti" with torch.distributed. Importing this package does so; further calls do nothing."""
    if not hasattr(dist.Backend, "TUTTI"):
        dist.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu", "cuda"])


register()
# Threads of the backend must not free tensors while the interpreter exits.
atexit.register(_c10d.leave_all, 2.0)
