// The functions of mpif.h and of the module mpi under Open MPI, as the preload exports them.
#include "bindings/mpi/fortran.hpp"

#include <dlfcn.h>

using namespace tutti::preload;
using namespace tutti::preload::fortran;

namespace tutti::preload {

constinit const void* fortran::in_places[2 * spellings] = {};
constinit const void* fortran::bottoms[2 * spellings] = {};

// The program's variable, and that of MPI's library where only a module of the program sees the library. A name that is
// lacking becomes an address that no buffer has; null is MPI_BOTTOM of C.
void find_fortran_addresses() noexcept {
  constexpr const char* in_place[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place__", "mpi_fortran_in_place",
                                      "MPI_FORTRAN_IN_PLACE"};
  constexpr const char* bottom[] = {"mpi_fortran_bottom_", "mpi_fortran_bottom__", "mpi_fortran_bottom",
                                    "MPI_FORTRAN_BOTTOM"};
  const auto find = [](void* where, const char* const(&names)[fortran::spellings], const void** found) {
    for (const char* name : names) {
      const void* const address = dlsym(where, name);
      *found++ = address != nullptr ? address : &fortran::in_places;
    }
  };
  find(RTLD_DEFAULT, in_place, fortran::in_places);
  find(mpi_library(), in_place, fortran::in_places + fortran::spellings);
  find(RTLD_DEFAULT, bottom, fortran::bottoms);
  find(mpi_library(), bottom, fortran::bottoms + fortran::spellings);
}

}  // namespace tutti::preload

extern "C" {

void mpi_allreduce_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* result) {
  run_call<"mpi_allreduce_">(result, as_allreduce, in, out, count, type, op, comm);
}
void mpi_iallreduce_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iallreduce_">(request, result, as_allreduce, in, out, count, type, op, comm);
}
void mpi_reduce_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_reduce_">(result, as_reduce, in, out, count, type, op, root, comm);
}
void mpi_ireduce_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* root, Fint* comm, Fint* request,
                  Fint* result) {
  start_call<"mpi_ireduce_">(request, result, as_reduce, in, out, count, type, op, root, comm);
}
void mpi_reduce_scatter_(void* in, void* out, Fint* counts, Fint* type, Fint* op, Fint* comm, Fint* result) {
  run_call<"mpi_reduce_scatter_">(result, as_reduce_scatter, in, out, counts, type, op, comm);
}
void mpi_ireduce_scatter_(void* in, void* out, Fint* counts, Fint* type, Fint* op, Fint* comm, Fint* request,
                          Fint* result) {
  start_call<"mpi_ireduce_scatter_">(request, result, as_reduce_scatter, in, out, counts, type, op, comm);
}
void mpi_reduce_scatter_block_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* result) {
  run_call<"mpi_reduce_scatter_block_">(result, as_reduce_scatter_block, in, out, count, type, op, comm);
}
void mpi_ireduce_scatter_block_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* request,
                                Fint* result) {
  start_call<"mpi_ireduce_scatter_block_">(request, result, as_reduce_scatter_block, in, out, count, type, op, comm);
}
void mpi_bcast_(void* data, Fint* count, Fint* type, Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_bcast_">(result, as_bcast, data, count, type, root, comm);
}
void mpi_ibcast_(void* data, Fint* count, Fint* type, Fint* root, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_ibcast_">(request, result, as_bcast, data, count, type, root, comm);
}
void mpi_allgather_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                    Fint* result) {
  run_call<"mpi_allgather_">(result, as_allgather, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_iallgather_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                     Fint* request, Fint* result) {
  start_call<"mpi_iallgather_">(request, result, as_allgather, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_alltoall_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                   Fint* result) {
  run_call<"mpi_alltoall_">(result, as_alltoall, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_ialltoall_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                    Fint* request, Fint* result) {
  start_call<"mpi_ialltoall_">(request, result, as_alltoall, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_gather_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                 Fint* comm, Fint* result) {
  run_call<"mpi_gather_">(result, as_gather, in, in_count, in_type, out, out_count, out_type, root, comm);
}
void mpi_igather_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                  Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_igather_">(request, result, as_gather, in, in_count, in_type, out, out_count, out_type, root, comm);
}
void mpi_scatter_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                  Fint* comm, Fint* result) {
  run_call<"mpi_scatter_">(result, as_scatter, in, in_count, in_type, out, out_count, out_type, root, comm);
}
void mpi_iscatter_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                   Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iscatter_">(request, result, as_scatter, in, in_count, in_type, out, out_count, out_type, root, comm);
}
void mpi_allgatherv_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                     Fint* comm, Fint* result) {
  run_call<"mpi_allgatherv_">(result, as_allgatherv, in, in_count, in_type, out, counts, displs, out_type, comm);
}
void mpi_iallgatherv_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                      Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iallgatherv_">(request, result, as_allgatherv, in, in_count, in_type, out, counts, displs, out_type,
                                 comm);
}
void mpi_gatherv_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                  Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_gatherv_">(result, as_gatherv, in, in_count, in_type, out, counts, displs, out_type, root, comm);
}
void mpi_igatherv_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                   Fint* root, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_igatherv_">(request, result, as_gatherv, in, in_count, in_type, out, counts, displs, out_type, root,
                              comm);
}
void mpi_scatterv_(void* in, Fint* counts, Fint* displs, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                   Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_scatterv_">(result, as_scatterv, in, counts, displs, in_type, out, out_count, out_type, root, comm);
}
void mpi_iscatterv_(void* in, Fint* counts, Fint* displs, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                    Fint* root, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iscatterv_">(request, result, as_scatterv, in, counts, displs, in_type, out, out_count, out_type,
                               root, comm);
}
void mpi_alltoallv_(void* in, Fint* in_counts, Fint* in_displs, Fint* in_type, void* out, Fint* out_counts,
                    Fint* out_displs, Fint* out_type, Fint* comm, Fint* result) {
  run_call<"mpi_alltoallv_">(result, as_alltoallv, in, in_counts, in_displs, in_type, out, out_counts, out_displs,
                             out_type, comm);
}
void mpi_ialltoallv_(void* in, Fint* in_counts, Fint* in_displs, Fint* in_type, void* out, Fint* out_counts,
                     Fint* out_displs, Fint* out_type, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_ialltoallv_">(request, result, as_alltoallv, in, in_counts, in_displs, in_type, out, out_counts,
                                out_displs, out_type, comm);
}
void mpi_barrier_(Fint* comm, Fint* result) { run_call<"mpi_barrier_">(result, as_barrier, comm); }
void mpi_ibarrier_(Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_ibarrier_">(request, result, as_barrier, comm);
}

void mpi_wait_(Fint* request, void* status, Fint* result) {
  complete_these(1, request);
  give(result, call_fortran<"mpi_wait_">(request, status));
}
void mpi_waitall_(Fint* count, Fint* requests, void* statuses, Fint* result) {
  complete_these(*count, requests);
  give(result, call_fortran<"mpi_waitall_">(count, requests, statuses));
}
void mpi_test_(Fint* request, Fint* done, void* status, Fint* result) {
  settle_these(1, request);
  give(result, call_fortran<"mpi_test_">(request, done, status));
}
void mpi_testall_(Fint* count, Fint* requests, Fint* done, void* statuses, Fint* result) {
  settle_these(*count, requests);
  give(result, call_fortran<"mpi_testall_">(count, requests, done, statuses));
}
void mpi_testany_(Fint* count, Fint* requests, Fint* index, Fint* done, void* status, Fint* result) {
  settle_these(*count, requests);
  give(result, call_fortran<"mpi_testany_">(count, requests, index, done, status));
}
void mpi_testsome_(Fint* count, Fint* requests, Fint* done, Fint* indices, void* statuses, Fint* result) {
  settle_these(*count, requests);
  give(result, call_fortran<"mpi_testsome_">(count, requests, done, indices, statuses));
}
void mpi_request_get_status_(Fint* request, Fint* done, void* status, Fint* result) {
  settle_these(1, request);
  give(result, call_fortran<"mpi_request_get_status_">(request, done, status));
}
void mpi_request_free_(Fint* request, Fint* result) {
  complete_these(1, request);
  give(result, call_fortran<"mpi_request_free_">(request));
}
void mpi_waitany_(Fint* count, Fint* requests, Fint* index, void* status, Fint* result) {
  wait_for_any<"mpi_waitany_", "mpi_testany_">(count, requests, index, status, result);
}
void mpi_waitsome_(Fint* count, Fint* requests, Fint* done, Fint* indices, void* statuses, Fint* result) {
  wait_for_several<"mpi_waitsome_", "mpi_testsome_">(count, requests, done, indices, statuses, result);
}

void mpi_init_(Fint* result) {
  give(result, initialize([] { return call_fortran<"mpi_init_">(); }));
}
void mpi_init_thread_(Fint* required, Fint* provided, Fint* result) {
  give(result, initialize([&] { return call_fortran<"mpi_init_thread_">(required, provided); }));
}
void mpi_finalize_(Fint* result) {
  end();
  give(result, call_fortran<"mpi_finalize_">());
}

}  // extern "C"
