#include "transports/mpi/call.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

namespace tutti::mpi {
namespace {

constexpr std::size_t part_bytes = std::size_t{64} << 20;       // small enough for regular progress
constexpr std::size_t most_bytes = (std::size_t{1} << 31) - 1;  // largest buffer for one MPI call
constexpr int block_tag = 11;

}  // namespace

template <class Function>
void MpiCall::ask(const char* name, const Function& function) {
  function_ = name;
  MPI_Request request = session_.handles.no_request;
  session_.check(function(&request), name);
  requests_.push_back(request);
}

// Makes at least one call, also for zero elements, so that all ranks make the same MPI calls.
template <class Function>
void MpiCall::in_parts(std::size_t count, const Function& function) const {
  const std::size_t part = part_bytes / width();
  std::size_t at = 0;
  do {
    const std::size_t n = std::min(part, count - at);
    function(at * width(), static_cast<int>(n));
    at += n;
  } while (at < count);
}

void MpiCall::issue() {
  switch (call_.kind) {
    case Kind::allreduce: return allreduce();
    case Kind::reduce: return reduce();
    case Kind::broadcast: return spread_from(call_.root, call_.out.data, call_.out.count);
    case Kind::allgather: return allgather();
    case Kind::reduce_scatter: return reduce_scatter();
    case Kind::gather: return gather();
    case Kind::scatter: return scatter();
    case Kind::alltoall: return alltoall();
    default: return ask("MPI_Ibarrier", [&](MPI_Request* r) { return mpi().ibarrier(comm_.get(), r); });
  }
}

MpiCall::~MpiCall() {
  if (made_.empty() || session_.ended()) return;
  const auto turn = session_.turn();
  for (MPI_Datatype& made : made_) mpi().type_free(&made);
}

void MpiCall::complete() {
  if (result_ == nullptr || result_count_ == 0) return;
  const std::size_t bytes = result_count_ * width();
  if (call_.op.op == Op::avg) {  // divides as the built-in folds do: f16 and bf16 in float
    static constexpr std::array<std::byte, 4096> zeros{};
    const Fold divide{dtype(), Op::sum, static_cast<double>(size())};
    for (std::size_t at = 0; at < bytes; at += zeros.size())
      divide(result_ + at, result_ + at, zeros.data(), std::min(zeros.size(), bytes - at));
  }
  if (result_ != call_.out.data) std::memcpy(call_.out.data, result_, bytes);
}

// ---- MPI calls by kind ------------------------------------------------------------------------

const std::byte* MpiCall::copied(const std::byte* from, std::size_t count) {
  input_.assign(from, from + count * width());
  return input_.data();
}

/// This rank's contribution to a reduction.
const std::byte* MpiCall::operand() {
  if (call_.op.op != Op::premul_sum) return call_.in.data;
  input_.resize(call_.in.bytes());
  scale(dtype(), input_.data(), call_.in.data, input_.size(), call_.op.factor);
  return input_.data();
}

// Does not use MPI_IN_PLACE: all ranks would have to pass it, and Open MPI then uses its slowest algorithm.
void MpiCall::allreduce() {
  const std::byte* from = operand();
  if (from == call_.out.data && call_.in.count > 0) from = copied(from, call_.in.count);
  result_ = call_.out.data;
  result_count_ = call_.in.count;
  in_parts(call_.in.count, [&](std::size_t at, int n) {
    ask("MPI_Iallreduce",
        [&](MPI_Request* r) { return mpi().iallreduce(from + at, result_ + at, n, type(), op(), comm_.get(), r); });
  });
}

/// `into` is used at the root only; if it equals `from`, the reduction is in place.
void MpiCall::fold_at(int root, const std::byte* from, std::byte* into, std::size_t count) {
  const bool in_place = comm_.rank() == root && from == into && count > 0;
  in_parts(count, [&](std::size_t at, int n) {
    ask("MPI_Ireduce", [&](MPI_Request* r) {
      return mpi().ireduce(in_place ? MPI_IN_PLACE : from + at, into == nullptr ? nullptr : into + at, n, type(), op(),
                           root, comm_.get(), r);
    });
  });
}

void MpiCall::reduce() {
  result_ = at_root() ? call_.out.data : nullptr;
  result_count_ = call_.in.count;
  fold_at(call_.root, operand(), result_, call_.in.count);
}

void MpiCall::spread_from(int root, std::byte* data, std::size_t count) {
  in_parts(count, [&](std::size_t at, int n) {
    ask("MPI_Ibcast", [&](MPI_Request* r) { return mpi().ibcast(data + at, n, type(), root, comm_.get(), r); });
  });
}

MpiCall::Blocks MpiCall::blocks(const std::vector<std::size_t>& counts, std::size_t each) const {
  Blocks all;
  all.sizes = call_.variable ? counts : std::vector(size(), each);
  for (const std::size_t n : all.sizes) {
    all.offsets.push_back(all.total);
    all.total += n;
  }
  return all;
}

bool MpiCall::fits(const Blocks& blocks) const noexcept { return blocks.total * width() <= most_bytes; }

void MpiCall::list(const Blocks& blocks) {
  for (std::size_t i = 0; i < size(); ++i) {
    counts_.push_back(static_cast<int>(blocks.sizes[i]));
    places_.push_back(static_cast<int>(blocks.offsets[i]));
  }
}

void MpiCall::keep_own_block(const Blocks& blocks) {
  std::byte* const mine = out(blocks.offsets[me()]);
  if (call_.in.data != mine && call_.in.count > 0) std::memcpy(mine, call_.in.data, call_.in.bytes());
}

void MpiCall::allgather() {
  const Blocks all = blocks(call_.out_counts, call_.in.count);
  if (!fits(all)) {
    keep_own_block(all);
    for (std::size_t i = 0; i < size(); ++i) spread_from(static_cast<int>(i), out(all.offsets[i]), all.sizes[i]);
    return;
  }
  const int count = static_cast<int>(call_.in.count);
  const bool in_place = count > 0 && call_.in.data == out(all.offsets[me()]);
  const void* const from = in_place ? MPI_IN_PLACE : call_.in.data;
  if (!call_.variable)
    return ask("MPI_Iallgather", [&](MPI_Request* r) {
      return mpi().iallgather(from, count, type(), out(), count, type(), comm_.get(), r);
    });
  list(all);
  ask("MPI_Iallgatherv", [&](MPI_Request* r) {
    return mpi().iallgatherv(from, count, type(), out(), counts_.data(), places_.data(), type(), comm_.get(), r);
  });
}

// Does not use MPI_IN_PLACE, which expects the result at the beginning of the buffer; here `out` may be any block of
// `in`.
void MpiCall::reduce_scatter() {
  const Blocks all = blocks(call_.in_counts, call_.out.count);
  const std::byte* const from = operand();
  result_ = call_.out.data;
  result_count_ = call_.out.count;
  const std::byte* const end = from + all.total * width();
  if (result_count_ > 0 && result_ >= from && result_ < end) {
    output_.resize(call_.out.bytes());
    result_ = output_.data();
  }
  if (!fits(all)) {
    for (std::size_t i = 0; i < size(); ++i)
      fold_at(static_cast<int>(i), from + all.offsets[i] * width(), i == me() ? result_ : nullptr, all.sizes[i]);
    return;
  }
  if (!call_.variable)
    return ask("MPI_Ireduce_scatter_block", [&](MPI_Request* r) {
      return mpi().ireduce_scatter_block(from, result_, static_cast<int>(result_count_), type(), op(), comm_.get(), r);
    });
  list(all);
  ask("MPI_Ireduce_scatter", [&](MPI_Request* r) {
    return mpi().ireduce_scatter(from, result_, counts_.data(), type(), op(), comm_.get(), r);
  });
}

void MpiCall::gather() {
  const Blocks all = blocks(call_.out_counts, call_.in.count);
  if (call_.variable || !fits(all)) {  // in the v-form only the root knows whether it fits
    if (!at_root()) return send(call_.in.data, call_.in.count, call_.root);
    keep_own_block(all);
    for (std::size_t i = 0; i < size(); ++i)
      if (i != me()) receive(out(all.offsets[i]), all.sizes[i], static_cast<int>(i));
    return;
  }
  const int count = static_cast<int>(call_.in.count);
  const bool in_place = at_root() && count > 0 && call_.in.data == out(all.offsets[me()]);
  const void* const from = in_place ? MPI_IN_PLACE : call_.in.data;
  ask("MPI_Igather", [&](MPI_Request* r) {
    return mpi().igather(from, count, type(), out(), count, type(), call_.root, comm_.get(), r);
  });
}

void MpiCall::scatter() {
  const Blocks all = blocks(call_.in_counts, call_.out.count);
  const auto block = [&](std::size_t i) { return call_.in.data + all.offsets[i] * width(); };
  const int count = static_cast<int>(call_.out.count);
  const bool in_place = at_root() && call_.out.count > 0 && call_.out.data == block(me());
  if (call_.variable || !fits(all)) {
    if (!at_root()) return receive(out(), call_.out.count, call_.root);
    if (!in_place && call_.out.count > 0) std::memcpy(out(), block(me()), call_.out.bytes());
    for (std::size_t i = 0; i < size(); ++i)
      if (i != me()) send(block(i), all.sizes[i], static_cast<int>(i));
    return;
  }
  void* const into = in_place ? MPI_IN_PLACE : out();
  ask("MPI_Iscatter", [&](MPI_Request* r) {
    return mpi().iscatter(call_.in.data, count, type(), into, count, type(), call_.root, comm_.get(), r);
  });
}

void MpiCall::alltoall() {
  const std::size_t each = call_.in.count / size();
  if (call_.variable || call_.in.bytes() > most_bytes) return exchange();
  const bool in_place = call_.in.data == call_.out.data && call_.in.count > 0;
  const std::byte* const from = in_place ? copied(call_.in.data, call_.in.count) : call_.in.data;
  ask("MPI_Ialltoall", [&](MPI_Request* r) {
    return mpi().ialltoall(from, static_cast<int>(each), type(), out(), static_cast<int>(each), type(), comm_.get(), r);
  });
}

// Each rank knows its own counts only, so all ranks use MPI_Alltoallw, which has no limit. Blocks beyond the range of
// an int are described by a datatype: one element that covers the block and starts where the block does.
void MpiCall::exchange() {
  const std::size_t each = call_.in.count / size();
  const Blocks in = blocks(call_.in_counts, each), into = blocks(call_.out_counts, each);
  const bool in_place = call_.in.data == call_.out.data && call_.in.count > 0;
  const std::byte* const from = in_place ? copied(call_.in.data, call_.in.count) : call_.in.data;
  const auto say = [&](const Blocks& all, std::vector<MPI_Datatype>& types) {
    for (std::size_t i = 0; i < size(); ++i) {
      const std::size_t at = all.offsets[i] * width();
      const bool plain = fits(all) || all.sizes[i] == 0;
      if (!plain) made_.push_back(session_.many(all.sizes[i], dtype(), at));
      types.push_back(plain ? type() : made_.back());
      counts_.push_back(plain ? static_cast<int>(all.sizes[i]) : 1);
      places_.push_back(plain && all.sizes[i] > 0 ? static_cast<int>(at) : 0);
    }
  };
  say(in, types_in_);
  say(into, types_out_);
  ask("MPI_Ialltoallw", [&](MPI_Request* r) {
    return mpi().ialltoallw(from, counts_.data(), places_.data(), types_in_.data(), out(), counts_.data() + size(),
                            places_.data() + size(), types_out_.data(), comm_.get(), r);
  });
}

void MpiCall::send(const std::byte* from, std::size_t count, int to) {
  in_parts(count, [&](std::size_t at, int n) {
    ask("MPI_Isend", [&](MPI_Request* r) { return mpi().isend(from + at, n, type(), to, block_tag, comm_.get(), r); });
  });
}

void MpiCall::receive(std::byte* into, std::size_t count, int from) {
  in_parts(count, [&](std::size_t at, int n) {
    ask("MPI_Irecv",
        [&](MPI_Request* r) { return mpi().irecv(into + at, n, type(), from, block_tag, comm_.get(), r); });
  });
}

}  // namespace tutti::mpi
