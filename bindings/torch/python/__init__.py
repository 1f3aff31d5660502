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

__all__ = ["Backend", "Options", "communicator", "create", "dump_flight_recorder", "register", "shrink"]


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
        name, sources, extra_cflags=["-std=c++20", "-O2", "-DUSE_DISTRIBUTED", "-DFMT_HEADER_ONLY"],
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

    return Communicator._from_capsule(_c10d.communicator(_backend_of(group, "communicator")[1]))


def _backend_of(group, function):
    """A process group (None: the default one) and its Backend, for a function of this module."""
    group = dist.group.WORLD if group is None else group
    if group is None:
        raise ValueError(f"tutti.torch.{function}(): there is no default process group; call init_process_group first")
    if not isinstance(group, dist.ProcessGroup):
        raise ValueError(f"tutti.torch.{function}(): this rank is not in the process group")
    for device in group._device_types:
        backend = group._get_backend(device)
        if isinstance(backend, Backend):
            return group, backend
    raise ValueError(f"tutti.torch.{function}(): the process group's backend is {dist.get_backend(group)}, not tutti")


def shrink(group=None, pg_options=None):
    """A process group of the ranks that are left in `group` (None: the default group), in their old order.

    All ranks that are left call it; it blocks until they have, at most for the group's timeout. They agree on the dead
    ranks, and pass these to torch.distributed.shrink_group, which describes what becomes of the old group and of other
    groups. Unlike shrink_group alone, the new group takes tensors of the same devices as the old one. Returns `group`
    itself if nobody is dead. `pg_options` is an Options or None. Raises ValueError if the group's backend is not tutti,
    or this rank is not in the group; DistBackendError if not all that are left have called it in time.
    """
    group, backend = _backend_of(group, "shrink")
    if pg_options is not None and not isinstance(pg_options, Options):
        raise TypeError(f"pg_options of the backend tutti must be a tutti.torch.Options, not {type(pg_options).__name__}")
    lost = backend.lost_ranks()
    if not lost:
        return group
    devices = list(group._device_types)
    made = dist.shrink_group(lost, group, pg_options=pg_options)
    registered = made._device_types[0]  # torch registers the backend for one device
    kind = dist.ProcessGroup.BackendType.NCCL if registered.type == "cuda" else dist.ProcessGroup.BackendType.GLOO
    backend = made._get_backend(registered)
    for device in devices:
        if device.type != registered.type:
            made._register_backend(device, kind, backend)
    return made


def dump_flight_recorder(prefix=None, stacks=True):
    """This rank's last calls as a pickle, in the format of torch's flight recorder; `stacks` adds where each was made.

    With a prefix, such as "dumps/rank_", it is also written to the file of that name with the rank at its end. Files of
    all ranks are read by `python -m torch.distributed.flight_recorder.fr_trace -p rank_ dumps`. Local; any thread.
    Raises RuntimeError if the recorder is off.
    """
    if not _c10d.flight_recorder_is_on():
        raise RuntimeError("tutti.torch.dump_flight_recorder(): the flight recorder is off: start the program with "
                           "TORCH_FR_BUFFER_SIZE=2000, the number of calls to keep; if it is set, this torch has no recorder")
    dump = _c10d.dump_flight_recorder(stacks)
    if prefix is not None:
        pathlib.Path(f"{prefix}{_c10d.flight_recorder_rank()}").write_bytes(dump)
    return dump


def register():
    """Registers the backend "tutti" with torch.distributed. Importing this package does so; further calls do nothing."""
    if not hasattr(dist.Backend, "TUTTI"):
        dist.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu", "cuda"])


register()
# Threads of the backend must not free tensors while the interpreter exits.
atexit.register(_c10d.leave_all, 2.0)
