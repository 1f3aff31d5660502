#include "bindings/mpi/library.hpp"

#include <dlfcn.h>

#include <string>

#include "tutti/status.hpp"

namespace tutti::preload {
namespace {

Library the_library{};

template <class Function>
void take_if_there(void* handle, Function& function, const char* name) {
  void* found = dlsym(handle, name);
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, name);
  function = reinterpret_cast<Function>(found);
}

template <class Function>
void take(void* handle, Function& function, const char* name) {
  take_if_there(handle, function, name);
  if (function == nullptr)
    throw Error(Code::unsupported, "this MPI has no " + std::string(name) + "; one of version 3 or later is needed");
}

void take_communicators(void* handle, Library& all) {
  take(handle, all.query_thread, "PMPI_Query_thread");
  take(handle, all.abort, "PMPI_Abort");
  take(handle, all.comm_rank, "PMPI_Comm_rank");
  take(handle, all.comm_size, "PMPI_Comm_size");
  take(handle, all.comm_test_inter, "PMPI_Comm_test_inter");
  take(handle, all.comm_group, "PMPI_Comm_group");
  take(handle, all.group_translate_ranks, "PMPI_Group_translate_ranks");
  take(handle, all.group_free, "PMPI_Group_free");
  take(handle, all.comm_dup, "PMPI_Comm_dup");
  take(handle, all.comm_free, "PMPI_Comm_free");
  take(handle, all.comm_get_name, "PMPI_Comm_get_name");
  take(handle, all.comm_create_keyval, "PMPI_Comm_create_keyval");
  take(handle, all.comm_free_keyval, "PMPI_Comm_free_keyval");
  take(handle, all.comm_get_attr, "PMPI_Comm_get_attr");
  take(handle, all.comm_set_attr, "PMPI_Comm_set_attr");
  take(handle, all.comm_set_errhandler, "PMPI_Comm_set_errhandler");
  take(handle, all.comm_call_errhandler, "PMPI_Comm_call_errhandler");
  take(handle, all.error_class, "PMPI_Error_class");
  take(handle, all.add_error_class, "PMPI_Add_error_class");
  take(handle, all.add_error_code, "PMPI_Add_error_code");
  take(handle, all.add_error_string, "PMPI_Add_error_string");
}

void take_calls(void* handle, Library& all) {
  take(handle, all.bcast, "PMPI_Bcast");
  take(handle, all.allreduce, "PMPI_Allreduce");
  take(handle, all.allgather, "PMPI_Allgather");
  take(handle, all.barrier, "PMPI_Barrier");
  take(handle, all.irecv, "PMPI_Irecv");
  take(handle, all.test, "PMPI_Test");
  take(handle, all.wait, "PMPI_Wait");
  take(handle, all.cancel, "PMPI_Cancel");
  take(handle, all.grequest_start, "PMPI_Grequest_start");
  take(handle, all.grequest_complete, "PMPI_Grequest_complete");
  take(handle, all.status_set_elements, "PMPI_Status_set_elements");
  take(handle, all.status_set_cancelled, "PMPI_Status_set_cancelled");
}

void take_twins(void* handle, Library& all) {
  take(handle, all.iallreduce, "PMPI_Iallreduce");
  take(handle, all.ireduce, "PMPI_Ireduce");
  take(handle, all.ireduce_scatter, "PMPI_Ireduce_scatter");
  take(handle, all.ibcast, "PMPI_Ibcast");
  take(handle, all.iallgather, "PMPI_Iallgather");
  take(handle, all.iallgatherv, "PMPI_Iallgatherv");
  take(handle, all.igather, "PMPI_Igather");
  take(handle, all.igatherv, "PMPI_Igatherv");
  take(handle, all.iscatter, "PMPI_Iscatter");
  take(handle, all.iscatterv, "PMPI_Iscatterv");
  take(handle, all.ialltoall, "PMPI_Ialltoall");
  take(handle, all.ialltoallv, "PMPI_Ialltoallv");
  take(handle, all.ibarrier, "PMPI_Ibarrier");
}

void take_types(void* handle, Library& all) {
  take(handle, all.type_size, "PMPI_Type_size");
  take(handle, all.type_get_extent, "PMPI_Type_get_extent");
  take(handle, all.type_get_envelope, "PMPI_Type_get_envelope");
  take(handle, all.type_get_contents, "PMPI_Type_get_contents");
  take(handle, all.type_contiguous, "PMPI_Type_contiguous");
  take(handle, all.type_create_hindexed, "PMPI_Type_create_hindexed");
  take(handle, all.get_address, "PMPI_Get_address");
  take(handle, all.type_commit, "PMPI_Type_commit");
  take(handle, all.type_free, "PMPI_Type_free");
  take_if_there(handle, all.type_get_envelope_c, "PMPI_Type_get_envelope_c");
  take(handle, all.pack, "PMPI_Pack");
  take(handle, all.unpack, "PMPI_Unpack");
}

}  // namespace

void take_library(void* handle) {
  take_communicators(handle, the_library);
  take_calls(handle, the_library);
  take_twins(handle, the_library);
  take_types(handle, the_library);
  the_library.handles = mpi::predefined_handles(handle);
  the_library.logical = logical_ops(handle);
  the_library.comm_dup(the_library.handles.self, &the_library.own);
  the_library.comm_set_errhandler(the_library.own, the_library.handles.errors_return);
}

void leave_library() noexcept { the_library.comm_free(&the_library.own); }

const Library& library() noexcept { return the_library; }

MPI_Datatype byte_type() noexcept { return type_of(DType::u8); }
MPI_Datatype type_of(DType dtype) noexcept { return the_library.handles.types[static_cast<std::size_t>(dtype)]; }
MPI_Op op_of(Op op) noexcept { return the_library.handles.ops[static_cast<std::size_t>(op)]; }

}  // namespace tutti::preload
