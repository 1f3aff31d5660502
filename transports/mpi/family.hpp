// The family of MPI that this module is compiled for: whose mpi.h it sees decides.
#pragma once

#include <mpi.h>

#ifdef OPEN_MPI
#include "transports/mpi/openmpi.hpp"
#else
#include "transports/mpi/mpich.hpp"
#endif
