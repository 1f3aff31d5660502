#include "collectives/runtime/verification.hpp"

#include <algorithm>

#include "collectives/plan/algorithm.hpp"

namespace tutti {
namespace {

constexpr std::uint32_t verification_lane = 0xffffffffu;

}  // namespace

Verification::Verification(Transport& wire, const Group& group, std::uint32_t sequence, Signature call, Outcome outcome)
    : group_(group),
      sequence_(sequence),
      call_(call),
      outcome_(std::move(outcome)),
      signatures_(static_cast<std::size_t>(group.size())),
      execution_(wire, group, *this) {}

void Verification::begin() {
  const Algorithm* ring = find_algorithm(Kind::allgather, "ring");
  const auto rank = static_cast<std::size_t>(group_.rank);
  auto* const all = reinterpret_cast<std::byte*>(signatures_.data());
  signatures_[rank] = static_cast<std::int64_t>(call_.bits);
  LaneMemory memory;
  memory.in = {all + rank * sizeof(std::int64_t), 0, 0, 1};
  memory.out = {all, 1, 0, 1};
  memory.fold.dtype = DType::i64;
  plan_ = ring->plan({.rank = group_.rank, .size = group_.size(), .count = 1});
  execution_.play(plan_, memory, {group_.id, sequence_, verification_lane}, {});
}

Status Verification::compared() const {
  const auto other =
      std::ranges::find_if(signatures_, [&](std::int64_t s) { return static_cast<std::uint64_t>(s) != call_.bits; });
  if (other == signatures_.end()) return {};
  const int me = group_.members[static_cast<std::size_t>(group_.rank)];
  Cause why;
  why.code = Code::mismatch;
  why.culprit = group_.members[static_cast<std::size_t>(other - signatures_.begin())];
  why.reporter = me;
  why.say("the ranks do not agree: rank " + std::to_string(me) + " made " + describe(call_) + ", but rank " +
          std::to_string(why.culprit) + " made " + describe({static_cast<std::uint64_t>(*other)}) +
          ". All ranks must make the same calls in the same order.");
  return Status(why);
}

void Verification::ended(Execution&, const Status& status) {
  const Status outcome = status.ok() ? compared() : status;
  if (status.ok() && !outcome.ok()) outcome_.trouble(outcome);
  const auto ended = outcome_.ended;  // a copy, since calling it may destroy this object
  ended(outcome);
}

}  // namespace tutti
