"""A program of JAX; it ends at once where there is no JAX."""
import importlib.util
import sys

if importlib.util.find_spec("jax") is None:
    sys.exit(77)  # a package is lacking
# the block
