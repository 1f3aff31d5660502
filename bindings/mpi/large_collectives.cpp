// The large-count collectives of MPI 4 (MPI_Count); compiled if mpi.h declares them.
#include "bindings/mpi/interception.hpp"

using namespace tutti::preload;

extern "C" {

int MPI_Allreduce_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return run<"PMPI_Allreduce_c">(allreduce(in, out, count, type, op, comm), in, out, count, type, op, comm);
}
int MPI_Bcast_c(void* data, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  return run<"PMPI_Bcast_c">(bcast(data, count, type, root, comm), data, count, type, root, comm);
}
int MPI_Reduce_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return run<"PMPI_Reduce_c">(reduce(in, out, count, type, op, root, comm), in, out, count, type, op, root, comm);
}
int MPI_Allgather_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                    MPI_Datatype out_type, MPI_Comm comm) {
  return run<"PMPI_Allgather_c">(blocks(Function::allgather, in, in_count, in_type, out, out_count, out_type, comm), in,
                                 in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Allgatherv_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, const MPI_Count counts[],
                     const MPI_Aint displs[], MPI_Datatype out_type, MPI_Comm comm) {
  return run<"PMPI_Allgatherv_c">(
      gathered(Function::allgatherv, in, in_count, in_type, out, counts, displs, out_type, comm), in, in_count, in_type,
      out, counts, displs, out_type, comm);
}
int MPI_Reduce_scatter_c(const void* in, void* out, const MPI_Count counts[], MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  return run<"PMPI_Reduce_scatter_c">(reduce_scatter(in, out, counts, type, op, comm), in, out, counts, type, op, comm);
}
int MPI_Reduce_scatter_block_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                               MPI_Comm comm) {
  return run<"PMPI_Reduce_scatter_block_c">(reduce_scatter_block(in, out, count, type, op, comm), in, out, count, type,
                                            op, comm);
}
int MPI_Alltoall_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                   MPI_Datatype out_type, MPI_Comm comm) {
  return run<"PMPI_Alltoall_c">(blocks(Function::alltoall, in, in_count, in_type, out, out_count, out_type, comm), in,
                                in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Alltoallv_c(const void* in, const MPI_Count in_counts[], const MPI_Aint in_displs[], MPI_Datatype in_type,
                    void* out, const MPI_Count out_counts[], const MPI_Aint out_displs[], MPI_Datatype out_type,
                    MPI_Comm comm) {
  return run<"PMPI_Alltoallv_c">(
      alltoallv(in, in_counts, in_displs, in_type, out, out_counts, out_displs, out_type, comm), in, in_counts,
      in_displs, in_type, out, out_counts, out_displs, out_type, comm);
}
int MPI_Gather_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                 MPI_Datatype out_type, int root, MPI_Comm comm) {
  return run<"PMPI_Gather_c">(blocks(Function::gather, in, in_count, in_type, out, out_count, out_type, comm, root), in,
                              in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Gatherv_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, const MPI_Count counts[],
                  const MPI_Aint displs[], MPI_Datatype out_type, int root, MPI_Comm comm) {
  return run<"PMPI_Gatherv_c">(
      gathered(Function::gatherv, in, in_count, in_type, out, counts, displs, out_type, comm, root), in, in_count,
      in_type, out, counts, displs, out_type, root, comm);
}
int MPI_Scatter_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                  MPI_Datatype out_type, int root, MPI_Comm comm) {
  return run<"PMPI_Scatter_c">(blocks(Function::scatter, in, in_count, in_type, out, out_count, out_type, comm, root),
                               in, in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Scatterv_c(const void* in, const MPI_Count counts[], const MPI_Aint displs[], MPI_Datatype in_type, void* out,
                   MPI_Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm) {
  return run<"PMPI_Scatterv_c">(scatterv(in, counts, displs, in_type, out, out_count, out_type, root, comm), in, counts,
                                displs, in_type, out, out_count, out_type, root, comm);
}
int MPI_Iallreduce_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                     MPI_Request* request) {
  return start<"PMPI_Iallreduce_c">(allreduce(in, out, count, type, op, comm), request, in, out, count, type, op, comm);
}
int MPI_Ibcast_c(void* data, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Ibcast_c">(bcast(data, count, type, root, comm), request, data, count, type, root, comm);
}
int MPI_Ireduce_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                  MPI_Request* request) {
  return start<"PMPI_Ireduce_c">(reduce(in, out, count, type, op, root, comm), request, in, out, count, type, op, root,
                                 comm);
}
int MPI_Iallgather_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                     MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iallgather_c">(blocks(Function::allgather, in, in_count, in_type, out, out_count, out_type, comm),
                                    request, in, in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Iallgatherv_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, const MPI_Count counts[],
                      const MPI_Aint displs[], MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iallgatherv_c">(
      gathered(Function::allgatherv, in, in_count, in_type, out, counts, displs, out_type, comm), request, in, in_count,
      in_type, out, counts, displs, out_type, comm);
}
int MPI_Ireduce_scatter_c(const void* in, void* out, const MPI_Count counts[], MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Ireduce_scatter_c">(reduce_scatter(in, out, counts, type, op, comm), request, in, out, counts,
                                         type, op, comm);
}
int MPI_Ireduce_scatter_block_c(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                MPI_Request* request) {
  return start<"PMPI_Ireduce_scatter_block_c">(reduce_scatter_block(in, out, count, type, op, comm), request, in, out,
                                               count, type, op, comm);
}
int MPI_Ialltoall_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                    MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Ialltoall_c">(blocks(Function::alltoall, in, in_count, in_type, out, out_count, out_type, comm),
                                   request, in, in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Ialltoallv_c(const void* in, const MPI_Count in_counts[], const MPI_Aint in_displs[], MPI_Datatype in_type,
                     void* out, const MPI_Count out_counts[], const MPI_Aint out_displs[], MPI_Datatype out_type,
                     MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Ialltoallv_c">(
      alltoallv(in, in_counts, in_displs, in_type, out, out_counts, out_displs, out_type, comm), request, in, in_counts,
      in_displs, in_type, out, out_counts, out_displs, out_type, comm);
}
int MPI_Igather_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                  MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Igather_c">(blocks(Function::gather, in, in_count, in_type, out, out_count, out_type, comm, root),
                                 request, in, in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Igatherv_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, const MPI_Count counts[],
                   const MPI_Aint displs[], MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Igatherv_c">(
      gathered(Function::gatherv, in, in_count, in_type, out, counts, displs, out_type, comm, root), request, in,
      in_count, in_type, out, counts, displs, out_type, root, comm);
}
int MPI_Iscatter_c(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out, MPI_Count out_count,
                   MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iscatter_c">(
      blocks(Function::scatter, in, in_count, in_type, out, out_count, out_type, comm, root), request, in, in_count,
      in_type, out, out_count, out_type, root, comm);
}
int MPI_Iscatterv_c(const void* in, const MPI_Count counts[], const MPI_Aint displs[], MPI_Datatype in_type, void* out,
                    MPI_Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iscatterv_c">(scatterv(in, counts, displs, in_type, out, out_count, out_type, root, comm), request,
                                   in, counts, displs, in_type, out, out_count, out_type, root, comm);
}

}  // extern "C"
