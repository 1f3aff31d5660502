#include "bindings/mpi/translation.hpp"

#include <cstring>
#include <numeric>
#include <string>

#include "bindings/mpi/failures.hpp"

namespace tutti::preload {
namespace {

constexpr Kind kinds[function_count] = {Kind::allreduce, Kind::broadcast,      Kind::reduce,         Kind::allgather,
                                        Kind::allgather, Kind::reduce_scatter, Kind::reduce_scatter, Kind::alltoall,
                                        Kind::alltoall,  Kind::gather,         Kind::gather,         Kind::scatter,
                                        Kind::scatter,   Kind::barrier};

bool in_place(const void* data) noexcept { return data == MPI_IN_PLACE; }

/// The buffer of `count` elements that a reduction reads or writes.
void* checked(void* data, std::size_t count) {
  if (in_place(data)) throw BadArgument(MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed for this buffer");
  if (data == nullptr && count > 0) throw BadArgument(MPI_ERR_BUFFER, "a buffer is null");
  return data;
}

bool has_root(Function function) noexcept {
  switch (function) {
    case Function::bcast:
    case Function::reduce:
    case Function::gather:
    case Function::gatherv:
    case Function::scatter:
    case Function::scatterv: return true;
    default: return false;
  }
}

bool has_lists(Function function) noexcept {
  return function == Function::allgatherv || function == Function::alltoallv || function == Function::gatherv ||
         function == Function::scatterv;
}

std::size_t checked(std::int64_t count) {
  if (count < 0) throw BadArgument(MPI_ERR_COUNT, "a count is negative: " + std::to_string(count));
  return static_cast<std::size_t>(count);
}

/// Throws BadArgument if a list of counts or displacements that this rank needs is null.
void check_lists(const Call& call, int rank) {
  const auto check = [](bool there) {
    if (!there) throw BadArgument(MPI_ERR_ARG, "a list of counts or displacements is null");
  };
  const auto listed = [](const Part& part) { return !part.counts.empty() && !part.displs.empty(); };
  switch (call.function) {
    case Function::reduce_scatter: return check(!call.out.counts.empty());
    case Function::allgatherv: return check(listed(call.out));
    case Function::gatherv: return check(rank != call.root || listed(call.out));
    case Function::scatterv: return check(rank != call.root || listed(call.in));
    case Function::alltoallv: return check(listed(call.out) && (in_place(call.in.data) || listed(call.in)));
    default: return;
  }
}

Buffer as_bytes(std::byte* data, std::size_t bytes) noexcept { return {data, bytes, DType::u8}; }

std::vector<std::size_t> as_vector(std::span<const std::size_t> counts) { return {counts.begin(), counts.end()}; }

}  // namespace

const char* function_name(Function function) noexcept {
  constexpr const char* names[function_count] = {
      "Allreduce", "Bcast",     "Reduce", "Allgather", "Allgatherv", "Reduce_scatter", "Reduce_scatter_block",
      "Alltoall",  "Alltoallv", "Gather", "Gatherv",   "Scatter",    "Scatterv",       "Barrier"};
  return names[static_cast<std::size_t>(function)];
}

bool is_reduction(Function function) noexcept {
  return function == Function::allreduce || function == Function::reduce || function == Function::reduce_scatter ||
         function == Function::reduce_scatter_block;
}

std::optional<Output> output_of(const Call& call, const Known& known) {
  const bool at_root = known.rank == call.root;
  switch (call.function) {
    case Function::barrier: return {};
    case Function::reduce:
      if (!at_root) return {};
      return Output{call.out};
    case Function::gather:
    case Function::gatherv:
      if (!at_root) return {};
      return Output{call.out, known.size};
    case Function::scatter:
    case Function::scatterv:
      if (in_place(call.out.data)) return {};
      return Output{call.out};
    case Function::reduce_scatter: {
      Part own = call.out;
      own.count = call.out.counts[known.rank];
      own.counts = {};
      return Output{own};
    }
    case Function::allgather:
    case Function::allgatherv:
    case Function::alltoall:
    case Function::alltoallv: return Output{call.out, known.size};
    default: return Output{call.out};
  }
}

Translation::Translation(const Call& call, const Known& known, const std::optional<Folding>& folding)
    : rank_(known.rank), size_(known.size) {
  collective_.kind = kinds[static_cast<std::size_t>(call.function)];
  collective_.root = call.root;
  collective_.variable = has_lists(call.function);
  if (has_root(call.function) && (call.root < 0 || call.root >= size_))
    throw BadArgument(MPI_ERR_ROOT, "the root is no rank: " + std::to_string(call.root));
  check_lists(call, rank_);
  translate(call, folding);
}

void Translation::translate(const Call& call, const std::optional<Folding>& folding) {
  switch (collective_.kind) {
    case Kind::allreduce:
    case Kind::reduce: return reduce(call, *folding);
    case Kind::reduce_scatter: return scatter_reduced(call, *folding);
    case Kind::broadcast: return broadcast(call);
    case Kind::allgather: return gather(call, true);
    case Kind::gather: return gather(call, false);
    case Kind::scatter: return scatter(call);
    case Kind::alltoall: return exchange(call);
    default: return;
  }
}

void Translation::outlive_the_call() {
  if (out_) out_->hold_type();
}

void Translation::finish() {
  if (at_end_) at_end_();
}

ConstBuffer Translation::read(Side& side) {
  side.load();
  return as_bytes(side.data(), side.bytes());
}

void Translation::reduce(const Call& call, const Folding& folding) {
  const std::size_t count = checked(call.in.count) * static_cast<std::size_t>(folding.width);
  const bool has_result = call.function == Function::allreduce || rank_ == call.root;
  void* const out = has_result ? checked(call.out.data, count) : nullptr;
  if (has_result && count > 0 && call.in.data == out)
    throw BadArgument(MPI_ERR_BUFFER, "the two buffers are one; give MPI_IN_PLACE");
  collective_.op = {folding.op};
  collective_.in = {has_result && in_place(call.in.data) ? out : checked(call.in.data, count), count, folding.dtype};
  collective_.out = {out, has_result ? count : 0, folding.dtype};
}

// For a call in place, MPI requires the result at the start of the buffer, but tutti writes it to this rank's block.
void Translation::scatter_reduced(const Call& call, const Folding& folding) {
  const auto width = static_cast<std::size_t>(folding.width);
  std::size_t total = 0, own = 0;
  for (int i = 0; i < size_; ++i) {
    const std::size_t count = checked(call.out.counts.empty() ? call.in.count : call.out.counts[i]) * width;
    if (!call.out.counts.empty()) collective_.in_counts.push_back(count);
    if (i == rank_) own = count;
    total += count;
  }
  collective_.variable = !call.out.counts.empty();
  collective_.op = {folding.op};
  void* const out = checked(call.out.data, own);
  collective_.in = {in_place(call.in.data) ? checked(out, total) : checked(call.in.data, total), total, folding.dtype};
  collective_.out = {out, own, folding.dtype};
  if (!in_place(call.in.data)) return;
  copy_ = Scratch(collective_.out.bytes());
  at_end_ = [this, front = call.out.data] {
    if (collective_.out.bytes() > 0) std::memcpy(front, collective_.out.data, collective_.out.bytes());
  };
  collective_.out.data = copy_.data();
}

void Translation::broadcast(const Call& call) {
  Side& data = out_.emplace(call.out, 1);
  if (rank_ == call.root) data.load();
  collective_.out = as_bytes(data.data(), data.bytes());
  if (rank_ != call.root) at_end_ = [&data] { data.store(); };
}

void Translation::gather(const Call& call, bool everywhere) {
  const bool has_result = everywhere || rank_ == call.root;
  collective_.out = as_bytes(nullptr, 0);
  if (has_result) {
    Side& all = out_.emplace(call.out, size_);
    collective_.out = as_bytes(all.data(), all.bytes());
    if (collective_.variable) collective_.out_counts = as_vector(all.blocks());
    at_end_ = [&all] { all.store(); };
  }
  if (has_result && in_place(call.in.data)) {
    out_->load(rank_);
    collective_.in = as_bytes(out_->block(rank_), out_->blocks()[static_cast<std::size_t>(rank_)]);
  } else {
    collective_.in = read(in_.emplace(call.in, 1));
  }
}

void Translation::scatter(const Call& call) {
  const bool at_root = rank_ == call.root;
  if (at_root) {
    Side& all = in_.emplace(call.in, size_);
    collective_.in = read(all);
    if (collective_.variable) collective_.in_counts = as_vector(all.blocks());
  }
  if (at_root && in_place(call.out.data)) {
    collective_.out = as_bytes(in_->block(rank_), in_->blocks()[static_cast<std::size_t>(rank_)]);
    return;
  }
  Side& own = out_.emplace(call.out, 1);
  collective_.out = as_bytes(own.data(), own.bytes());
  at_end_ = [&own] { own.store(); };
}

void Translation::exchange(const Call& call) {
  Side& out = out_.emplace(call.out, size_);
  collective_.out = as_bytes(out.data(), out.bytes());
  if (in_place(call.in.data)) {
    copy_ = Scratch(out.bytes());
    out.copy_out(copy_.data());
    collective_.in = as_bytes(copy_.data(), out.bytes());
  } else {
    collective_.in = read(in_.emplace(call.in, size_));
  }
  if (collective_.variable) {
    collective_.in_counts = as_vector(in_ ? in_->blocks() : out.blocks());
    collective_.out_counts = as_vector(out.blocks());
  }
  at_end_ = [&out] { out.store(); };
}

}  // namespace tutti::preload
