// MPI's functions and predefined handles, looked up by name because this library does not link MPI.
#pragma once

#include <mpi.h>

#include <vector>

#include "transports/mpi/family.hpp"

namespace tutti::preload {

/// The category of a predefined type; together with its size it determines the DType.
enum class Sort : std::uint8_t { whole, natural, real, complex, truth, byte };

struct PredefinedType {
  MPI_Datatype type;
  Sort sort;
};

/// MPI's logical operators, for which tutti uses the bitwise ones.
struct LogicalOps {
  MPI_Op land = {}, lor = {}, lxor = {};
};

/// The predefined types of the MPI family whose mpi.h this is compiled with, except those that the library lacks.
std::vector<PredefinedType> predefined_types(void* library);
LogicalOps logical_ops(void* library);

struct Library {
  decltype(&MPI_Query_thread) query_thread;
  decltype(&MPI_Abort) abort;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_test_inter) comm_test_inter;
  decltype(&MPI_Comm_group) comm_group;
  decltype(&MPI_Group_translate_ranks) group_translate_ranks;
  decltype(&MPI_Group_free) group_free;
  decltype(&MPI_Comm_dup) comm_dup;
  decltype(&MPI_Comm_free) comm_free;
  decltype(&MPI_Comm_get_name) comm_get_name;
  decltype(&MPI_Comm_create_keyval) comm_create_keyval;
  decltype(&MPI_Comm_free_keyval) comm_free_keyval;
  decltype(&MPI_Comm_get_attr) comm_get_attr;
  decltype(&MPI_Comm_set_attr) comm_set_attr;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Comm_call_errhandler) comm_call_errhandler;
  decltype(&MPI_Error_class) error_class;
  decltype(&MPI_Add_error_class) add_error_class;
  decltype(&MPI_Add_error_code) add_error_code;
  decltype(&MPI_Add_error_string) add_error_string;
  decltype(&MPI_Bcast) bcast;
  decltype(&MPI_Allreduce) allreduce;
  decltype(&MPI_Allgather) allgather;
  decltype(&MPI_Barrier) barrier;
  decltype(&MPI_Iallreduce) iallreduce;
  decltype(&MPI_Ireduce) ireduce;
  decltype(&MPI_Ireduce_scatter) ireduce_scatter;
  decltype(&MPI_Ibcast) ibcast;
  decltype(&MPI_Iallgather) iallgather;
  decltype(&MPI_Iallgatherv) iallgatherv;
  decltype(&MPI_Igather) igather;
  decltype(&MPI_Igatherv) igatherv;
  decltype(&MPI_Iscatter) iscatter;
  decltype(&MPI_Iscatterv) iscatterv;
  decltype(&MPI_Ialltoall) ialltoall;
  decltype(&MPI_Ialltoallv) ialltoallv;
  decltype(&MPI_Ibarrier) ibarrier;
  decltype(&MPI_Irecv) irecv;
  decltype(&MPI_Test) test;
  decltype(&MPI_Wait) wait;
  decltype(&MPI_Cancel) cancel;
  decltype(&MPI_Type_size) type_size;
  decltype(&MPI_Type_get_extent) type_get_extent;
  decltype(&MPI_Type_get_envelope) type_get_envelope;
  decltype(&MPI_Type_get_contents) type_get_contents;
  decltype(&MPI_Type_contiguous) type_contiguous;
  decltype(&MPI_Type_create_hindexed) type_create_hindexed;
  decltype(&MPI_Get_address) get_address;
  decltype(&MPI_Type_commit) type_commit;
  decltype(&MPI_Type_free) type_free;
  /// For types made with MPI_Count counts; null in libraries before MPI 4.
  int (*type_get_envelope_c)(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*);
  decltype(&MPI_Pack) pack;
  decltype(&MPI_Unpack) unpack;
  decltype(&MPI_Grequest_start) grequest_start;
  decltype(&MPI_Grequest_complete) grequest_complete;
  decltype(&MPI_Status_set_elements) status_set_elements;
  decltype(&MPI_Status_set_cancelled) status_set_cancelled;

  mpi::Handles handles;
  LogicalOps logical;
  /// A duplicate of MPI_COMM_SELF that returns errors, for the MPI calls of this library.
  MPI_Comm own = {};
};

/// Looks up all functions and handles, and makes `own`. Throws Error{unsupported} with the first name that is missing.
void take_library(void* handle);
/// Frees `own`.
void leave_library() noexcept;
/// Valid after take_library().
const Library& library() noexcept;

MPI_Datatype byte_type() noexcept;
MPI_Datatype type_of(DType dtype) noexcept;
MPI_Op op_of(Op op) noexcept;

}  // namespace tutti::preload
