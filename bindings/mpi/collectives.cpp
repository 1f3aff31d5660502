// The collectives of MPI that the preload exports.
#include "bindings/mpi/interception.hpp"

using namespace tutti::preload;

extern "C" {

int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return run<"PMPI_Allreduce">(allreduce(in, out, count, type, op, comm), in, out, count, type, op, comm);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return run<"PMPI_Bcast">(bcast(data, count, type, root, comm), data, count, type, root, comm);
}
int MPI_Reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return run<"PMPI_Reduce">(reduce(in, out, count, type, op, root, comm), in, out, count, type, op, root, comm);
}
int MPI_Allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm) {
  return run<"PMPI_Allgather">(blocks(Function::allgather, in, in_count, in_type, out, out_count, out_type, comm), in,
                               in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
                   const int displs[], MPI_Datatype out_type, MPI_Comm comm) {
  return run<"PMPI_Allgatherv">(
      gathered(Function::allgatherv, in, in_count, in_type, out, counts, displs, out_type, comm), in, in_count, in_type,
      out, counts, displs, out_type, comm);
}
int MPI_Reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return run<"PMPI_Reduce_scatter">(reduce_scatter(in, out, counts, type, op, comm), in, out, counts, type, op, comm);
}
int MPI_Reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return run<"PMPI_Reduce_scatter_block">(reduce_scatter_block(in, out, count, type, op, comm), in, out, count, type,
                                          op, comm);
}
int MPI_Alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                 MPI_Comm comm) {
  return run<"PMPI_Alltoall">(blocks(Function::alltoall, in, in_count, in_type, out, out_count, out_type, comm), in,
                              in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Alltoallv(const void* in, const int in_counts[], const int in_displs[], MPI_Datatype in_type, void* out,
                  const int out_counts[], const int out_displs[], MPI_Datatype out_type, MPI_Comm comm) {
  return run<"PMPI_Alltoallv">(
      alltoallv(in, in_counts, in_displs, in_type, out, out_counts, out_displs, out_type, comm), in, in_counts,
      in_displs, in_type, out, out_counts, out_displs, out_type, comm);
}
int MPI_Gather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
               int root, MPI_Comm comm) {
  return run<"PMPI_Gather">(blocks(Function::gather, in, in_count, in_type, out, out_count, out_type, comm, root), in,
                            in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Gatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[], const int displs[],
                MPI_Datatype out_type, int root, MPI_Comm comm) {
  return run<"PMPI_Gatherv">(
      gathered(Function::gatherv, in, in_count, in_type, out, counts, displs, out_type, comm, root), in, in_count,
      in_type, out, counts, displs, out_type, root, comm);
}
int MPI_Scatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                int root, MPI_Comm comm) {
  return run<"PMPI_Scatter">(blocks(Function::scatter, in, in_count, in_type, out, out_count, out_type, comm, root), in,
                             in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Scatterv(const void* in, const int counts[], const int displs[], MPI_Datatype in_type, void* out, int out_count,
                 MPI_Datatype out_type, int root, MPI_Comm comm) {
  return run<"PMPI_Scatterv">(scatterv(in, counts, displs, in_type, out, out_count, out_type, root, comm), in, counts,
                              displs, in_type, out, out_count, out_type, root, comm);
}
int MPI_Barrier(MPI_Comm comm) { return run<"PMPI_Barrier">(barrier(comm), comm); }
int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  return start<"PMPI_Iallreduce">(allreduce(in, out, count, type, op, comm), request, in, out, count, type, op, comm);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Ibcast">(bcast(data, count, type, root, comm), request, data, count, type, root, comm);
}
int MPI_Ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request* request) {
  return start<"PMPI_Ireduce">(reduce(in, out, count, type, op, root, comm), request, in, out, count, type, op, root,
                               comm);
}
int MPI_Iallgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iallgather">(blocks(Function::allgather, in, in_count, in_type, out, out_count, out_type, comm),
                                  request, in, in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Iallgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
                    const int displs[], MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iallgatherv">(
      gathered(Function::allgatherv, in, in_count, in_type, out, counts, displs, out_type, comm), request, in, in_count,
      in_type, out, counts, displs, out_type, comm);
}
int MPI_Ireduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                        MPI_Request* request) {
  return start<"PMPI_Ireduce_scatter">(reduce_scatter(in, out, counts, type, op, comm), request, in, out, counts, type,
                                       op, comm);
}
int MPI_Ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request* request) {
  return start<"PMPI_Ireduce_scatter_block">(reduce_scatter_block(in, out, count, type, op, comm), request, in, out,
                                             count, type, op, comm);
}
int MPI_Ialltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Ialltoall">(blocks(Function::alltoall, in, in_count, in_type, out, out_count, out_type, comm),
                                 request, in, in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Ialltoallv(const void* in, const int in_counts[], const int in_displs[], MPI_Datatype in_type, void* out,
                   const int out_counts[], const int out_displs[], MPI_Datatype out_type, MPI_Comm comm,
                   MPI_Request* request) {
  return start<"PMPI_Ialltoallv">(
      alltoallv(in, in_counts, in_displs, in_type, out, out_counts, out_displs, out_type, comm), request, in, in_counts,
      in_displs, in_type, out, out_counts, out_displs, out_type, comm);
}
int MPI_Igather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Igather">(blocks(Function::gather, in, in_count, in_type, out, out_count, out_type, comm, root),
                               request, in, in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Igatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[], const int displs[],
                 MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Igatherv">(
      gathered(Function::gatherv, in, in_count, in_type, out, counts, displs, out_type, comm, root), request, in,
      in_count, in_type, out, counts, displs, out_type, root, comm);
}
int MPI_Iscatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                 int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iscatter">(blocks(Function::scatter, in, in_count, in_type, out, out_count, out_type, comm, root),
                                request, in, in_count, in_type, out, out_count, out_type, root, comm);
}
int MPI_Iscatterv(const void* in, const int counts[], const int displs[], MPI_Datatype in_type, void* out,
                  int out_count, MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start<"PMPI_Iscatterv">(scatterv(in, counts, displs, in_type, out, out_count, out_type, root, comm), request,
                                 in, counts, displs, in_type, out, out_count, out_type, root, comm);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) { return start<"PMPI_Ibarrier">(barrier(comm), request, comm); }

}  // extern "C"
