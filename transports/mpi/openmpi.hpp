// Open MPI: predefined handles are addresses of variables.
#pragma once

#include <dlfcn.h>

#include "transports/mpi/handles.hpp"

namespace tutti::mpi {

inline constexpr bool is_open_mpi = true;
inline constexpr std::string_view family = "Open MPI";
inline constexpr const char* sonames[] = {"libmpi.so.40"};
/// Libraries with MPI's Fortran functions.
inline constexpr const char* fortran_sonames[] = {"libmpi_mpifh.so.40", "libmpi_usempif08.so.40"};
inline constexpr const char* launch_marks[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"};
inline constexpr std::string_view others = "an mpiexec of MPICH's kind, or SLURM for one,";
inline constexpr const char* others_marks[] = {"PMI_RANK", "PMI_FD"};

inline MPI_Comm communicator_of(std::int64_t native) {
  using Convert = MPI_Comm (*)(MPI_Fint);
  const auto convert = reinterpret_cast<Convert>(dlsym(RTLD_DEFAULT, "MPI_Comm_f2c"));
  return convert(static_cast<MPI_Fint>(native));
}

/// The handle, or null if the library lacks it. A program that links Open MPI may contain a copy of the variable (copy
/// relocation); then that copy is the valid one.
template <class Handle>
Handle predefined(void* library, const char* variable) {
  void* const everyones = dlsym(RTLD_DEFAULT, variable);
  return static_cast<Handle>(everyones != nullptr ? everyones : dlsym(library, variable));
}

inline Handles predefined_handles(void* library) {
  constexpr const char* types[] = {"ompi_mpi_int8_t",  "ompi_mpi_uint8_t",  "ompi_mpi_int16_t",  "ompi_mpi_int32_t",
                                   "ompi_mpi_int64_t", "ompi_mpi_uint16_t", "ompi_mpi_uint16_t", "ompi_mpi_float",
                                   "ompi_mpi_double",  "ompi_mpi_uint16_t", "ompi_mpi_uint32_t", "ompi_mpi_uint64_t"};
  constexpr const char* ops[] = {"ompi_mpi_op_sum", "ompi_mpi_op_sum",  "ompi_mpi_op_prod",
                                 "ompi_mpi_op_min", "ompi_mpi_op_max",  "ompi_mpi_op_band",
                                 "ompi_mpi_op_bor", "ompi_mpi_op_bxor", "ompi_mpi_op_sum"};
  Handles handles;
  handles.world = predefined<MPI_Comm>(library, "ompi_mpi_comm_world");
  handles.self = predefined<MPI_Comm>(library, "ompi_mpi_comm_self");
  handles.no_comm = predefined<MPI_Comm>(library, "ompi_mpi_comm_null");
  handles.errors_return = predefined<MPI_Errhandler>(library, "ompi_mpi_errors_return");
  handles.no_type = predefined<MPI_Datatype>(library, "ompi_mpi_datatype_null");
  handles.no_request = predefined<MPI_Request>(library, "ompi_request_null");
  for (std::size_t i = 0; i < handles.types.size(); ++i) handles.types[i] = predefined<MPI_Datatype>(library, types[i]);
  for (std::size_t i = 0; i < handles.ops.size(); ++i) handles.ops[i] = predefined<MPI_Op>(library, ops[i]);
  return handles;
}

}  // namespace tutti::mpi
