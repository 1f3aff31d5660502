"""MPI programs as tests start them: what starts them, and in which environment. FAMILY is openmpi or mpich."""

import os

LAUNCHERS = {"openmpi": ("mpirun.openmpi", "mpirun"), "mpich": ("mpiexec.hydra", "mpiexec.mpich")}
# As root, with more ranks than cores, without a fabric.
ENVIRONMENT = {
    "openmpi": {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
                "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none",
                "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_pml": "ob1"},
    "mpich": {},
}
OTHERS = ("TUTTI_", "OMPI_", "PMI", "PRTE_", "SLURM_", "TORCHELASTIC_", "MASTER_", "MPI_LOCAL", "HYDRA", "HYDI")


def environment(family, **extra):
    """This process's, without what launchers and settings of ours left in it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OTHERS) and k not in ("RANK", "WORLD_SIZE")}
    return {**kept, **ENVIRONMENT[family], **extra}
