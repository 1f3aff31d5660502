"""The variables that torchrun sets, for a program that `tutti run` starts or that is a rank alone. A program that imports this module
ends at once where there is no torch."""
import importlib.util
import os
import sys
import zlib

if importlib.util.find_spec("torch") is None:
    sys.exit(77)  # a package is lacking
job = os.environ.get("TUTTI_JOB", str(os.getpid()))  # the same on all ranks, and another one in each job
os.environ.setdefault("RANK", os.environ.get("TUTTI_RANK", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("TUTTI_SIZE", "1"))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 10000))
