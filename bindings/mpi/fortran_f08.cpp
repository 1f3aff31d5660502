// The functions of the module mpi_f08, as the preload exports them.
#include "bindings/mpi/fortran.hpp"

using namespace tutti::preload;
using namespace tutti::preload::fortran;

extern "C" {

#ifdef OPEN_MPI
void mpi_allreduce_f08_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* result) {
  run_call<"mpi_allreduce_f08_">(result, as_allreduce, in, out, count, type, op, comm);
}
void mpi_iallreduce_f08_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* request,
                         Fint* result) {
  start_call<"mpi_iallreduce_f08_">(request, result, as_allreduce, in, out, count, type, op, comm);
}
void mpi_reduce_f08_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_reduce_f08_">(result, as_reduce, in, out, count, type, op, root, comm);
}
void mpi_ireduce_f08_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* root, Fint* comm, Fint* request,
                      Fint* result) {
  start_call<"mpi_ireduce_f08_">(request, result, as_reduce, in, out, count, type, op, root, comm);
}
void mpi_reduce_scatter_f08_(void* in, void* out, Fint* counts, Fint* type, Fint* op, Fint* comm, Fint* result) {
  run_call<"mpi_reduce_scatter_f08_">(result, as_reduce_scatter, in, out, counts, type, op, comm);
}
void mpi_ireduce_scatter_f08_(void* in, void* out, Fint* counts, Fint* type, Fint* op, Fint* comm, Fint* request,
                              Fint* result) {
  start_call<"mpi_ireduce_scatter_f08_">(request, result, as_reduce_scatter, in, out, counts, type, op, comm);
}
void mpi_reduce_scatter_block_f08_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* result) {
  run_call<"mpi_reduce_scatter_block_f08_">(result, as_reduce_scatter_block, in, out, count, type, op, comm);
}
void mpi_ireduce_scatter_block_f08_(void* in, void* out, Fint* count, Fint* type, Fint* op, Fint* comm, Fint* request,
                                    Fint* result) {
  start_call<"mpi_ireduce_scatter_block_f08_">(request, result, as_reduce_scatter_block, in, out, count, type, op,
                                               comm);
}
void mpi_bcast_f08_(void* data, Fint* count, Fint* type, Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_bcast_f08_">(result, as_bcast, data, count, type, root, comm);
}
void mpi_ibcast_f08_(void* data, Fint* count, Fint* type, Fint* root, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_ibcast_f08_">(request, result, as_bcast, data, count, type, root, comm);
}
void mpi_allgather_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                        Fint* result) {
  run_call<"mpi_allgather_f08_">(result, as_allgather, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_iallgather_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                         Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iallgather_f08_">(request, result, as_allgather, in, in_count, in_type, out, out_count, out_type,
                                    comm);
}
void mpi_alltoall_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                       Fint* result) {
  run_call<"mpi_alltoall_f08_">(result, as_alltoall, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_ialltoall_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* comm,
                        Fint* request, Fint* result) {
  start_call<"mpi_ialltoall_f08_">(request, result, as_alltoall, in, in_count, in_type, out, out_count, out_type, comm);
}
void mpi_gather_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                     Fint* comm, Fint* result) {
  run_call<"mpi_gather_f08_">(result, as_gather, in, in_count, in_type, out, out_count, out_type, root, comm);
}
void mpi_igather_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                      Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_igather_f08_">(request, result, as_gather, in, in_count, in_type, out, out_count, out_type, root,
                                 comm);
}
void mpi_scatter_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                      Fint* comm, Fint* result) {
  run_call<"mpi_scatter_f08_">(result, as_scatter, in, in_count, in_type, out, out_count, out_type, root, comm);
}
void mpi_iscatter_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* out_count, Fint* out_type, Fint* root,
                       Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iscatter_f08_">(request, result, as_scatter, in, in_count, in_type, out, out_count, out_type, root,
                                  comm);
}
void mpi_allgatherv_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                         Fint* comm, Fint* result) {
  run_call<"mpi_allgatherv_f08_">(result, as_allgatherv, in, in_count, in_type, out, counts, displs, out_type, comm);
}
void mpi_iallgatherv_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs,
                          Fint* out_type, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iallgatherv_f08_">(request, result, as_allgatherv, in, in_count, in_type, out, counts, displs,
                                     out_type, comm);
}
void mpi_gatherv_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                      Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_gatherv_f08_">(result, as_gatherv, in, in_count, in_type, out, counts, displs, out_type, root, comm);
}
void mpi_igatherv_f08_(void* in, Fint* in_count, Fint* in_type, void* out, Fint* counts, Fint* displs, Fint* out_type,
                       Fint* root, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_igatherv_f08_">(request, result, as_gatherv, in, in_count, in_type, out, counts, displs, out_type,
                                  root, comm);
}
void mpi_scatterv_f08_(void* in, Fint* counts, Fint* displs, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                       Fint* root, Fint* comm, Fint* result) {
  run_call<"mpi_scatterv_f08_">(result, as_scatterv, in, counts, displs, in_type, out, out_count, out_type, root, comm);
}
void mpi_iscatterv_f08_(void* in, Fint* counts, Fint* displs, Fint* in_type, void* out, Fint* out_count, Fint* out_type,
                        Fint* root, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_iscatterv_f08_">(request, result, as_scatterv, in, counts, displs, in_type, out, out_count, out_type,
                                   root, comm);
}
void mpi_alltoallv_f08_(void* in, Fint* in_counts, Fint* in_displs, Fint* in_type, void* out, Fint* out_counts,
                        Fint* out_displs, Fint* out_type, Fint* comm, Fint* result) {
  run_call<"mpi_alltoallv_f08_">(result, as_alltoallv, in, in_counts, in_displs, in_type, out, out_counts, out_displs,
                                 out_type, comm);
}
void mpi_ialltoallv_f08_(void* in, Fint* in_counts, Fint* in_displs, Fint* in_type, void* out, Fint* out_counts,
                         Fint* out_displs, Fint* out_type, Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_ialltoallv_f08_">(request, result, as_alltoallv, in, in_counts, in_displs, in_type, out, out_counts,
                                    out_displs, out_type, comm);
}
#endif
void mpi_barrier_f08_(Fint* comm, Fint* result) { run_call<"mpi_barrier_f08_">(result, as_barrier, comm); }
void mpi_ibarrier_f08_(Fint* comm, Fint* request, Fint* result) {
  start_call<"mpi_ibarrier_f08_">(request, result, as_barrier, comm);
}

void mpi_wait_f08_(Fint* request, void* status, Fint* result) {
  complete_these(1, request);
  give(result, call_fortran<"mpi_wait_f08_">(request, status));
}
void mpi_waitall_f08_(Fint* count, Fint* requests, void* statuses, Fint* result) {
  complete_these(*count, requests);
  give(result, call_fortran<"mpi_waitall_f08_">(count, requests, statuses));
}
void mpi_test_f08_(Fint* request, Fint* done, void* status, Fint* result) {
  settle_these(1, request);
  give(result, call_fortran<"mpi_test_f08_">(request, done, status));
}
void mpi_testall_f08_(Fint* count, Fint* requests, Fint* done, void* statuses, Fint* result) {
  settle_these(*count, requests);
  give(result, call_fortran<"mpi_testall_f08_">(count, requests, done, statuses));
}
void mpi_testany_f08_(Fint* count, Fint* requests, Fint* index, Fint* done, void* status, Fint* result) {
  settle_these(*count, requests);
  give(result, call_fortran<"mpi_testany_f08_">(count, requests, index, done, status));
}
void mpi_testsome_f08_(Fint* count, Fint* requests, Fint* done, Fint* indices, void* statuses, Fint* result) {
  settle_these(*count, requests);
  give(result, call_fortran<"mpi_testsome_f08_">(count, requests, done, indices, statuses));
}
void mpi_request_get_status_f08_(Fint* request, Fint* done, void* status, Fint* result) {
  settle_these(1, request);
  give(result, call_fortran<"mpi_request_get_status_f08_">(request, done, status));
}
void mpi_request_free_f08_(Fint* request, Fint* result) {
  complete_these(1, request);
  give(result, call_fortran<"mpi_request_free_f08_">(request));
}
void mpi_waitany_f08_(Fint* count, Fint* requests, Fint* index, void* status, Fint* result) {
  wait_for_any<"mpi_waitany_f08_", "mpi_testany_f08_">(count, requests, index, status, result);
}
void mpi_waitsome_f08_(Fint* count, Fint* requests, Fint* done, Fint* indices, void* statuses, Fint* result) {
  wait_for_several<"mpi_waitsome_f08_", "mpi_testsome_f08_">(count, requests, done, indices, statuses, result);
}

void mpi_init_f08_(Fint* result) {
  give(result, initialize([] { return call_fortran<"mpi_init_f08_">(); }));
}
void mpi_init_thread_f08_(Fint* required, Fint* provided, Fint* result) {
  give(result, initialize([&] { return call_fortran<"mpi_init_thread_f08_">(required, provided); }));
}
void mpi_finalize_f08_(Fint* result) {
  end();
  give(result, call_fortran<"mpi_finalize_f08_">());
}

}  // extern "C"
