#include "bindings/mpi/shadow.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "bindings/mpi/checking.hpp"
#include "bindings/mpi/library.hpp"
#include "bindings/mpi/translation.hpp"
#include "tutti/status.hpp"

namespace tutti::preload {
namespace {

std::vector<std::byte> copy_of(const std::byte* data, std::size_t bytes) {
  if (bytes > std::numeric_limits<int>::max())
    throw Error(Code::unsupported, "TUTTI_MPI_CHECK cannot compare a call with a request of " + std::to_string(bytes) +
                                       " bytes; check a smaller run");
  std::vector<std::byte> copy(bytes);
  if (bytes > 0) std::memcpy(copy.data(), data, bytes);
  return copy;
}

/// Converts counts to int and computes the displacements of their blocks.
void list(std::span<const std::size_t> from, std::vector<int>& counts, std::vector<int>& displs) {
  int next = 0;
  for (const std::size_t one : from) {
    counts.push_back(static_cast<int>(one));
    displs.push_back(next);
    next += static_cast<int>(one);
  }
}

}  // namespace

Shadow::Shadow(const Call& call, const Collective& collective, const Known& known,
               const std::optional<Folding>& folding)
    : function_(call.function), collective_(collective), known_(known), folding_(folding) {
  requests_.fill(library().handles.no_request);
  if (collective.in.data != nullptr) in_ = copy_of(collective.in.data, collective.in.bytes());
  if (collective.out.data != nullptr) out_ = copy_of(collective.out.data, collective.out.bytes());
  list(collective.in_counts, in_counts_, in_displs_);
  list(collective.out_counts, out_counts_, out_displs_);
  if (folding_) {
    start_reduction(call);
    if (!is_integer(folding_->dtype) && folding_->op == Op::sum) start_magnitudes(call);
  } else {
    start_move(call);
  }
}

void Shadow::start_reduction(const Call& call) {
  const Library& mpi = library();
  const int count = static_cast<int>(call.in.count);
  MPI_Request* const request = &requests_[0];
  switch (collective_.kind) {
    case Kind::allreduce:
      mpi.iallreduce(in_.data(), out_.data(), count, call.out.type, call.op, call.comm, request);
      return;
    case Kind::reduce:
      mpi.ireduce(in_.data(), out_.data(), count, call.out.type, call.op, call.root, call.comm, request);
      return;
    default: break;
  }
  std::vector<int> counts(static_cast<std::size_t>(known_.size), count);
  for (int i = 0; i < known_.size && !call.out.counts.empty(); ++i)
    counts[static_cast<std::size_t>(i)] = static_cast<int>(call.out.counts[i]);
  out_counts_ = counts;  // must live until the request has completed
  mpi.ireduce_scatter(in_.data(), out_.data(), out_counts_.data(), call.out.type, call.op, call.comm, request);
}

void Shadow::start_magnitudes(const Call& call) {
  for (std::size_t i = 0; i < collective_.in.count; ++i)
    mine_.push_back(std::abs(real_at(in_.data(), folding_->dtype, i)));
  magnitudes_.resize(mine_.size());
  library().iallreduce(mine_.data(), magnitudes_.data(), static_cast<int>(mine_.size()), type_of(DType::f64),
                       op_of(Op::sum), call.comm, &requests_[1]);
}

void Shadow::start_move(const Call& call) {
  const Library& mpi = library();
  const MPI_Datatype type = byte_type();
  const int in = static_cast<int>(in_.size()), out = static_cast<int>(out_.size());
  const int each = known_.size > 0 ? out / known_.size : 0, given = known_.size > 0 ? in / known_.size : 0;
  MPI_Request* const request = &requests_[0];
  void* const into = out_.data();
  const void* const from = in_.data();
  const bool lists = collective_.variable;
  switch (collective_.kind) {
    case Kind::broadcast: mpi.ibcast(into, out, type, call.root, call.comm, request); return;
    case Kind::allgather:
      if (lists)
        mpi.iallgatherv(from, in, type, into, out_counts_.data(), out_displs_.data(), type, call.comm, request);
      else
        mpi.iallgather(from, in, type, into, each, type, call.comm, request);
      return;
    case Kind::gather:
      if (lists)
        mpi.igatherv(from, in, type, into, out_counts_.data(), out_displs_.data(), type, call.root, call.comm, request);
      else
        mpi.igather(from, in, type, into, each, type, call.root, call.comm, request);
      return;
    case Kind::scatter:
      if (lists)
        mpi.iscatterv(from, in_counts_.data(), in_displs_.data(), type, into, out, type, call.root, call.comm, request);
      else
        mpi.iscatter(from, given, type, into, out, type, call.root, call.comm, request);
      return;
    case Kind::alltoall:
      if (lists)
        mpi.ialltoallv(from, in_counts_.data(), in_displs_.data(), type, into, out_counts_.data(), out_displs_.data(),
                       type, call.comm, request);
      else
        mpi.ialltoall(from, given, type, into, each, type, call.comm, request);
      return;
    default: mpi.ibarrier(call.comm, request);
  }
}

bool Shadow::done() {
  for (MPI_Request& one : requests_) {
    if (one == library().handles.no_request) continue;
    MPI_Status status;
    int ended = 0;
    library().test(&one, &ended, &status);
    if (!ended) return false;
  }
  return true;
}

void Shadow::compare() {
  const std::size_t start =
      collective_.kind == Kind::reduce_scatter && !magnitudes_.empty()
          ? static_cast<std::size_t>(std::accumulate(out_counts_.begin(), out_counts_.begin() + known_.rank, 0)) *
                static_cast<std::size_t>(folding_->width)
          : 0;
  const auto magnitudes = std::span<const double>(magnitudes_).subspan(start);
  compare_results({collective_.out.data, out_.size()}, out_, magnitudes, folding_, known_, function_name(function_));
}

}  // namespace tutti::preload
