// The MPI library of this process: its location, family, launcher and functions.
#pragma once

#include <mpi.h>

#include <string>

#include "tutti/provider/provider.hpp"
#include "tutti/settings.hpp"

namespace tutti::mpi {

/// The MPI functions used, looked up by name because the module does not link MPI.
struct Functions {
  decltype(&MPI_Initialized) initialized;
  decltype(&MPI_Finalized) finalized;
  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Query_thread) query_thread;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Get_library_version) library_version;
  decltype(&MPI_Error_string) error_string;
  decltype(&MPI_Error_class) error_class;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_group) comm_group;
  decltype(&MPI_Comm_create_group) comm_create_group;
  decltype(&MPI_Comm_free) comm_free;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Comm_create_keyval) comm_create_keyval;
  decltype(&MPI_Comm_set_attr) comm_set_attr;
  decltype(&MPI_Group_incl) group_incl;
  decltype(&MPI_Group_free) group_free;
  decltype(&MPI_Iallreduce) iallreduce;
  decltype(&MPI_Ireduce) ireduce;
  decltype(&MPI_Ibcast) ibcast;
  decltype(&MPI_Iallgather) iallgather;
  decltype(&MPI_Iallgatherv) iallgatherv;
  decltype(&MPI_Ireduce_scatter) ireduce_scatter;
  decltype(&MPI_Ireduce_scatter_block) ireduce_scatter_block;
  decltype(&MPI_Igather) igather;
  decltype(&MPI_Iscatter) iscatter;
  decltype(&MPI_Ialltoall) ialltoall;
  decltype(&MPI_Ialltoallw) ialltoallw;
  decltype(&MPI_Ibarrier) ibarrier;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Test) test;
  decltype(&MPI_Testsome) testsome;
  decltype(&MPI_Improbe) improbe;
  decltype(&MPI_Imrecv) imrecv;
  decltype(&MPI_Get_count) get_count;
  decltype(&MPI_Type_contiguous) type_contiguous;
  decltype(&MPI_Type_create_struct) type_create_struct;
  decltype(&MPI_Type_commit) type_commit;
  decltype(&MPI_Type_free) type_free;
  decltype(&MPI_Op_create) op_create;
};

struct Library {
  void* handle = nullptr;
  std::string path;
  std::string missing;  ///< the reason why there is no MPI, as a clause; else empty
  Functions call{};
};

/// The MPI that the process has loaded; else the one of the setting mpi_library, of the launcher's installation, or
/// found by the dynamic loader. Opened once with global symbols and never closed; after a failure each call tries
/// again. Any thread.
const Library& library(const Settings& settings);

/// Says if an MPI of this family can be used in this process: its mpiexec started the process, or the program has
/// initialised it for several ranks.
Viability viable(const Settings& settings);

}  // namespace tutti::mpi
