// The predefined handles of an MPI library, which differ by family: mpich.hpp and openmpi.hpp fill them.
#pragma once

#include <mpi.h>

#include <array>
#include <string_view>

#include "tutti/dtype.hpp"
#include "tutti/reduce.hpp"

namespace tutti::mpi {

struct Handles {
  MPI_Comm world = {}, self = {}, no_comm = {};
  MPI_Errhandler errors_return = {};
  MPI_Datatype no_type = {};
  MPI_Request no_request = {};
  std::array<MPI_Datatype, dtype_count> types = {};  ///< f16 and bf16 are sent as 16-bit integers
  std::array<MPI_Op, op_count> ops = {};             ///< avg and premul_sum use the sum
};

}  // namespace tutti::mpi
