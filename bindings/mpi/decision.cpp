#include "bindings/mpi/decision.hpp"

#include "bindings/mpi/library.hpp"
#include "bindings/mpi/translation.hpp"

namespace tutti::preload {
namespace {

/// The bytes that each rank sends or receives; nullopt for calls with count arrays, which may differ between ranks. MPI
/// requires equal type signatures at sender and receiver, so all ranks compute the same number. Also nullopt for what
/// has no number of bytes, a negative count or no type: the others cannot know of it, and it is to be found by tutti.
std::optional<std::int64_t> bytes_of(const Call& call) {
  const auto of = [](const Part& part) -> std::optional<std::int64_t> {
    if (part.count < 0 || part.type == library().handles.no_type) return {};
    return part.count * size_of_type(part.type);
  };
  int rank = 0;
  switch (call.function) {
    case Function::gather: library().comm_rank(call.comm, &rank); return of(rank == call.root ? call.out : call.in);
    case Function::scatter: library().comm_rank(call.comm, &rank); return of(rank == call.root ? call.in : call.out);
    case Function::allreduce:
    case Function::bcast:
    case Function::reduce:
    case Function::reduce_scatter_block:
    case Function::allgather:
    case Function::alltoall: return of(call.out);
    default: return {};
  }
}

}  // namespace

Decision decide(const Call& call, const Policy& policy) {
  if (call.comm == library().handles.no_comm) return {};
  Decision made{true, {}};
  if (is_reduction(call.function)) {
    made.folding = folding_of(call.out.type, call.op);
    if (!made.folding) return {};
  }
  if (policy.min_bytes == 0) return made;
  int between_groups = 0;
  library().comm_test_inter(call.comm, &between_groups);
  if (between_groups) return {};  // MPI_ROOT and MPI_PROC_NULL say there which arguments count
  const std::optional<std::int64_t> bytes = bytes_of(call);
  made.ours = !bytes || *bytes >= policy.min_bytes;
  return made;
}

}  // namespace tutti::preload
