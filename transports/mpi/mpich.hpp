// MPICH and libraries with its ABI, Intel MPI and MVAPICH: predefined handles are integers.
#pragma once

#include "transports/mpi/handles.hpp"

namespace tutti::mpi {

inline constexpr bool is_open_mpi = false;
inline constexpr std::string_view family = "MPICH";
inline constexpr const char* sonames[] = {"libmpi.so.12", "libmpich.so.12"};
/// Libraries with MPI's Fortran functions.
inline constexpr const char* fortran_sonames[] = {"libmpifort.so.12", "libmpichfort.so.12"};
inline constexpr const char* launch_marks[] = {"PMI_RANK", "PMI_FD"};
inline constexpr std::string_view others = "Open MPI's mpiexec,";
inline constexpr const char* others_marks[] = {"OMPI_COMM_WORLD_SIZE"};

inline MPI_Comm communicator_of(std::int64_t native) { return MPI_Comm_f2c(static_cast<MPI_Fint>(native)); }

inline Handles predefined_handles(void*) {
  return {MPI_COMM_WORLD,
          MPI_COMM_SELF,
          MPI_COMM_NULL,
          MPI_ERRORS_RETURN,
          MPI_DATATYPE_NULL,
          MPI_REQUEST_NULL,
          {MPI_INT8_T, MPI_UINT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT16_T, MPI_UINT16_T, MPI_FLOAT,
           MPI_DOUBLE, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T},
          {MPI_SUM, MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_SUM}};
}

}  // namespace tutti::mpi
