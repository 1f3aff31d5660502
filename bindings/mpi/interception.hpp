// Helpers of the intercepted functions: they convert arguments to a Call and pass it to the library that makes tutti's
// calls (see engine.hpp), if that library is loaded.
#pragma once

#include "bindings/mpi/call.hpp"
#include "bindings/mpi/engine.hpp"
#include "bindings/mpi/original.hpp"

namespace tutti::preload {

/// Null before MPI_Init, after MPI_Finalize, and if tutti is not used.
const Engine* engine() noexcept;

inline void* writable(const void* data) noexcept { return const_cast<void*>(data); }

/// Makes a blocking collective. `arguments` are those of the MPI function, and `name` its name in MPI's library.
template <Name name, class... Arguments>
int run(const Call& call, Arguments... arguments) {
  const auto original = [&] { return call_original<name>(arguments...); };
  const Engine* const mine = engine();
  if (mine == nullptr) return original();
  const auto make = [](const void* closure) { return (*static_cast<decltype(original)*>(closure))(); };
  return mine->run(call, {make, &original});
}

/// The same for a nonblocking collective; MPI's function takes the request as its last argument.
template <Name name, class... Arguments>
int start(const Call& call, MPI_Request* request, Arguments... arguments) {
  const auto original = [&] { return call_original<name>(arguments..., request); };
  const Engine* const mine = engine();
  if (mine == nullptr) return original();
  const auto make = [](const void* closure) { return (*static_cast<decltype(original)*>(closure))(); };
  return mine->start(call, request, {make, &original});
}

// The conversion of each function's arguments. N is int or MPI_Count, D is int or MPI_Aint.

template <class N>
Call allreduce(const void* in, void* out, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return {Function::allreduce, comm, {writable(in), count, type}, {out, count, type}, op};
}
template <class N>
Call reduce(const void* in, void* out, N count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return {Function::reduce, comm, {writable(in), count, type}, {out, count, type}, op, root};
}
template <class N>
Call reduce_scatter_block(const void* in, void* out, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return {Function::reduce_scatter_block, comm, {writable(in), count, type}, {out, count, type}, op};
}
template <class N>
Call reduce_scatter(const void* in, void* out, const N* counts, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return {Function::reduce_scatter, comm, {writable(in), 0, type}, {out, 0, type, counts}, op};
}
template <class N>
Call bcast(void* data, N count, MPI_Datatype type, int root, MPI_Comm comm) {
  return {Function::bcast, comm, {}, {data, count, type}, {}, root};
}
/// MPI_Allgather and MPI_Alltoall; with a root, MPI_Gather and MPI_Scatter.
template <class N>
Call blocks(Function function, const void* in, N in_count, MPI_Datatype in_type, void* out, N out_count,
            MPI_Datatype out_type, MPI_Comm comm, int root = 0) {
  return {function, comm, {writable(in), in_count, in_type}, {out, out_count, out_type}, {}, root};
}
/// MPI_Allgatherv and MPI_Gatherv.
template <class N, class D>
Call gathered(Function function, const void* in, N in_count, MPI_Datatype in_type, void* out, const N* counts,
              const D* displs, MPI_Datatype out_type, MPI_Comm comm, int root = 0) {
  return {function, comm, {writable(in), in_count, in_type}, {out, 0, out_type, counts, displs}, {}, root};
}
template <class N, class D>
Call scatterv(const void* in, const N* counts, const D* displs, MPI_Datatype in_type, void* out, N out_count,
              MPI_Datatype out_type, int root, MPI_Comm comm) {
  return {Function::scatterv, comm, {writable(in), 0, in_type, counts, displs}, {out, out_count, out_type}, {}, root};
}
template <class N, class D>
Call alltoallv(const void* in, const N* in_counts, const D* in_displs, MPI_Datatype in_type, void* out,
               const N* out_counts, const D* out_displs, MPI_Datatype out_type, MPI_Comm comm) {
  return {Function::alltoallv,
          comm,
          {writable(in), 0, in_type, in_counts, in_displs},
          {out, 0, out_type, out_counts, out_displs}};
}
inline Call barrier(MPI_Comm comm) { return {Function::barrier, comm}; }

}  // namespace tutti::preload
