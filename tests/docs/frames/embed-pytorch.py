"""A program that torchrun starts: its variables from those of tutti run, or for one rank. It ends at once where there is no torch."""
import importlib.util
import os
import sys

if importlib.util.find_spec("torch") is None:
    sys.exit(77)  # a package is lacking
os.environ.setdefault("RANK", os.environ.get("TUTTI_RANK", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("TUTTI_SIZE", "1"))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29517")
# the block
