#include "bindings/mpi/decision.hpp"

#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/library.hpp"
#include "bindings/mpi/translation.hpp"

namespace tutti::preload {
namespace {

/// The bytes of the data; nullopt for a negative count or MPI_DATATYPE_NULL.
std::optional<std::int64_t> bytes_of(const Part& part) {
  if (part.count < 0 || part.type == library().handles.no_type) return {};
  return part.count * size_of_type(part.type);
}

/// The bytes of `one`; nullopt also if the count or type of `other` is wrong, unless `other` is MPI_IN_PLACE.
std::optional<std::int64_t> bytes_of(const Part& one, const Part& other) {
  if (other.data != MPI_IN_PLACE && !bytes_of(other)) return {};
  return bytes_of(one);
}

/// The bytes that each rank sends or receives. MPI requires equal type signatures at sender and receiver, so all ranks
/// compute the same number. nullopt for calls with count arrays, which may differ between ranks, and for wrong
/// arguments: tutti then gets the call, and refuses it.
std::optional<std::int64_t> bytes_of(const Call& call, int rank) {
  const bool at_root = rank == call.root;
  switch (call.function) {
    case Function::gather: return at_root ? bytes_of(call.out, call.in) : bytes_of(call.in);
    case Function::scatter: return at_root ? bytes_of(call.in, call.out) : bytes_of(call.out);
    case Function::allgather:
    case Function::alltoall: return bytes_of(call.out, call.in);
    case Function::allreduce:
    case Function::bcast:
    case Function::reduce:
    case Function::reduce_scatter_block: return bytes_of(call.out);
    default: return {};
  }
}

}  // namespace

Decision decide(const Call& call, const Known* known, const Policy& policy) {
  if (known == nullptr || !known->tutti) return {};
  Decision made{true, {}};
  if (is_reduction(call.function)) {
    made.folding = folding_of(call.out.type, call.op);
    if (!made.folding) return {};
  }
  if (policy.min_bytes == 0) return made;
  const std::optional<std::int64_t> bytes = bytes_of(call, known->rank);
  made.ours = !bytes || *bytes >= policy.min_bytes;
  return made;
}

}  // namespace tutti::preload
