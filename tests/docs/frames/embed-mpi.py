"""A program of mpi4py; it ends at once where there is no mpi4py. Without mpiexec MPI has one rank."""
import importlib.util
import sys

if importlib.util.find_spec("mpi4py") is None:
    sys.exit(77)  # a package is lacking
# the block
