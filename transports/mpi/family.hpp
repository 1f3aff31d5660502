// The MPI family that this module is compiled for, determined by the mpi.h in use.
#pragma once

#include <mpi.h>

#ifdef OPEN_MPI
#include "transports/mpi/openmpi.hpp"
#else
#include "transports/mpi/mpich.hpp"
#endif
