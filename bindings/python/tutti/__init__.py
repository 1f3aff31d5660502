"""Collectives with pluggable transports: allreduce, broadcast and the others, on arrays of any library.

    import numpy, tutti
    world = tutti.init()                    # ranks from `tutti run`, torchrun, mpirun or srun; else size 1
    world.allreduce(gradient, "avg")        # in place; async_op=True returns a Work
"""

from __future__ import annotations

import atexit
import os

from tutti import _core
from tutti._core import Communicator, Work, connect, from_mpi, init
from tutti._types import Arrived, Error, Place

__version__: str = _core.__version__
__all__ = ["Arrived", "Communicator", "Error", "Place", "Work", "connect", "doctor", "from_mpi", "info", "init", "version"]

ANY_RANK = -1
"""As `source` of probe(): a message from any rank."""

atexit.register(_core._stop)


def version() -> str:
    """The version of the library."""
    return __version__


def doctor(which: str | int = "", patience: float = 1.0) -> str:
    """What `tutti doctor` says of the jobs of this user on this host: what holds each up, which rank is to blame and in which call.

    `which` is the beginning of a job's name, the number of one of its processes or a folder of recordings; without it, all jobs.
    Calls of `patience` seconds count as stuck. Empty if there is no such job. Communicator.doctor() tells of its own job."""
    return _core._doctor(str(which), patience)


def info() -> dict[str, object]:
    """Facts about this installation: version, folder, instruction set of the reductions, and all settings with their values."""
    return {
        "version": __version__,
        "folder": os.path.dirname(__file__),
        "isa": _core._fold_isa(),
        "settings": {key: value for key, value, _ in _core._settings()},
    }
