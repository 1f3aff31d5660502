#include "tests/chaos/call.hpp"

#include <cstring>

namespace tutti::testing {

CallMemory::CallMemory(Communicator& group, std::size_t bytes, bool shared) : size_(bytes) {
  try {
    if (shared) shared_ = group.allocate<std::uint8_t>(bytes);
  } catch (const Error& error) {
    const bool is_refused = error.code() == Code::resource && !group.settings().chaos.empty();
    if (!is_refused) throw;
  }
  if (!shared_) own_.resize(bytes);
}

PlayedCall::PlayedCall(Communicator& group, const CallPlan& plan)
    : plan_(plan),
      me_(group.rank()),
      size_(group.size()),
      in_(group, input_count(me_) * size_of(plan.dtype), plan.shared),
      out_(group, output_count() * size_of(plan.dtype), plan.shared) {
  const std::vector<std::byte> values = input_of(plan, me_, 0, input_count(me_));
  if (!values.empty()) std::memcpy(in_.data(), values.data(), values.size());
  if (out_.size() > 0) std::memset(out_.data(), 0x5a, out_.size());
  call_.kind = plan.kind;
  call_.op = plan.op;
  call_.root = plan.root;
  call_.variable = plan.variable;
  call_.in = ConstBuffer(in_.data(), input_count(me_), plan.dtype);
  call_.out = Buffer(out_.data(), output_count(), plan.dtype);
  if (plan.kind == Kind::broadcast) {
    if (me_ == plan.root && !values.empty()) std::memcpy(out_.data(), values.data(), values.size());
    call_.in = {};
  }
  if (plan.kind == Kind::barrier) call_.in = {}, call_.out = {};
  if (plan.variable) set_counts();
  if (plan.in_place) place_in_one_buffer();
}

void PlayedCall::set_counts() {
  const bool blocks_in = plan_.kind == Kind::reduce_scatter || (plan_.kind == Kind::scatter && me_ == plan_.root);
  const bool blocks_out = plan_.kind == Kind::allgather || (plan_.kind == Kind::gather && me_ == plan_.root);
  for (int rank = 0; rank < size_; ++rank) {
    if (blocks_in) call_.in_counts.push_back(counted(rank));
    if (blocks_out) call_.out_counts.push_back(counted(rank));
    if (plan_.kind != Kind::alltoall) continue;
    call_.in_counts.push_back(pair(me_, rank));
    call_.out_counts.push_back(pair(rank, me_));
  }
}

void PlayedCall::place_in_one_buffer() {
  const std::size_t at = before(me_) * size_of(plan_.dtype);
  if (in_.size() == 0 || out_.size() == 0) return;
  if (plan_.kind == Kind::allgather || plan_.kind == Kind::gather) {
    std::memcpy(out_.data() + at, in_.data(), in_.size());
    call_.in.data = out_.data() + at;
  } else if (plan_.kind == Kind::reduce_scatter || plan_.kind == Kind::scatter) {
    call_.out.data = in_.data() + at;
  } else if (plan_.kind == Kind::allreduce || plan_.kind == Kind::reduce ||
             (plan_.kind == Kind::alltoall && !plan_.variable)) {
    std::memcpy(out_.data(), in_.data(), in_.size());
    call_.in.data = out_.data();
  } else {
    return;
  }
  in_place_ = true;
}

// ---- who has how many elements

std::size_t PlayedCall::counted(int rank) const {
  if (!plan_.variable) return plan_.count;
  return (plan_.count + 3 * static_cast<std::size_t>(rank) * plan_.count) %
         (plan_.count + static_cast<std::size_t>(rank) + 1);
}

std::size_t PlayedCall::pair(int from, int to) const {
  return plan_.variable ? (plan_.count + static_cast<std::size_t>(from + 2 * to)) % (plan_.count + 1) : plan_.count;
}

std::size_t PlayedCall::before(int rank) const {
  std::size_t sum = 0;
  for (int other = 0; other < rank; ++other) sum += counted(other);
  return sum;
}

std::size_t PlayedCall::input_count(int rank) const {
  std::size_t sum = 0;
  switch (plan_.kind) {
    case Kind::barrier: return 0;
    case Kind::allgather:
    case Kind::gather: return counted(rank);
    case Kind::reduce_scatter: return before(size_);
    case Kind::scatter: return rank == plan_.root ? before(size_) : 0;
    case Kind::alltoall:
      for (int to = 0; to < size_; ++to) sum += pair(rank, to);
      return sum;
    default: return plan_.count;
  }
}

std::size_t PlayedCall::output_count() const {
  std::size_t sum = 0;
  switch (plan_.kind) {
    case Kind::barrier: return 0;
    case Kind::allgather: return before(size_);
    case Kind::gather: return me_ == plan_.root ? before(size_) : 0;
    case Kind::reduce_scatter:
    case Kind::scatter: return counted(me_);
    case Kind::reduce: return me_ == plan_.root ? plan_.count : 0;
    case Kind::alltoall:
      for (int from = 0; from < size_; ++from) sum += pair(from, me_);
      return sum;
    default: return plan_.count;
  }
}

// ---- the result

double PlayedCall::expected(std::size_t i) const {
  switch (plan_.kind) {
    case Kind::allreduce:
    case Kind::reduce: return folded(plan_, size_, i);
    case Kind::reduce_scatter: return folded(plan_, size_, before(me_) + i);
    case Kind::broadcast: return static_cast<double>(value_of(plan_, plan_.root, i));
    case Kind::scatter: return static_cast<double>(value_of(plan_, plan_.root, before(me_) + i));
    default: return exchanged(i);
  }
}

// allgather, gather, alltoall: element `i` is of the rank in whose block it is.
double PlayedCall::exchanged(std::size_t i) const {
  for (int from = 0; from < size_; ++from) {
    const bool is_all = plan_.kind == Kind::alltoall;
    const std::size_t block = is_all ? pair(from, me_) : counted(from);
    if (i >= block) {
      i -= block;
      continue;
    }
    std::size_t first = 0;
    for (int to = 0; is_all && to < me_; ++to) first += pair(from, to);
    return static_cast<double>(value_of(plan_, from, first + i));
  }
  return 0;
}

std::string PlayedCall::check() {
  const std::size_t width = size_of(plan_.dtype), count = call_.out.count;
  std::byte wanted[8];
  for (std::size_t i = 0; i < count; ++i) {
    put(plan_.dtype, wanted, 0, expected(i));
    if (std::memcmp(wanted, call_.out.data + i * width, width) != 0)
      return "element " + std::to_string(i) + " of " + std::to_string(count) + " is wrong";
  }
  const bool keeps_input = !in_place_ && plan_.kind != Kind::barrier && plan_.kind != Kind::broadcast;
  if (keeps_input && in_.size() > 0 &&
      std::memcmp(in_.data(), input_of(plan_, me_, 0, input_count(me_)).data(), in_.size()) != 0)
    return "the input was changed";
  return "";
}

}  // namespace tutti::testing
