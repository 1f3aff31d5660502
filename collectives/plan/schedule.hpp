// Schedule: what one rank does in a collective, as rounds of steps on slices. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tutti/buffer.hpp"
#include "tutti/collective.hpp"

namespace tutti {

/// Everything that a plan may depend on. `count` is a number of elements as in core/collective.hpp: of the whole
/// buffer for allreduce, reduce and broadcast, of one rank's block for the other kinds. For the v-forms the counts
/// per rank are given instead, as in Collective.
struct Shape {
  int rank = 0;
  int size = 1;
  std::size_t count = 0;
  int root = 0;
  std::span<const std::size_t> in_counts = {};   ///< elements of each block of `in`, v-forms only
  std::span<const std::size_t> out_counts = {};  ///< elements of each block of `out`, v-forms only
  std::span<const int> host = {};                ///< host of each rank; empty: one host
};

enum class Memory : std::uint8_t { in, out, scratch };
struct Slice {
  Memory memory = Memory::out;
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const Slice&) const = default;
};
constexpr Slice in(Range r) noexcept { return {Memory::in, r.offset, r.count}; }
constexpr Slice out(Range r) noexcept { return {Memory::out, r.offset, r.count}; }
constexpr Slice scratch(Range r) noexcept { return {Memory::scratch, r.offset, r.count}; }

/// One operation. All slices of a step have the same count. round() drops steps of zero elements, except signals.
struct Step {
  enum class Verb : std::uint8_t { send, recv, recv_reduce, copy, fold } verb = Verb::send;
  int peer = 0;         ///< -1 for copy and fold, which are local
  Slice slice;          ///< the data sent, or the destination of the result
  Slice with;           ///< recv_reduce, fold: the first operand; copy: the source
  Slice from;           ///< fold: the second operand
  bool last = false;    ///< this fold completes its elements (see Schedule::reduced)
  bool signal = false;  ///< a message of zero elements that is really sent (barriers)
  bool operator==(const Step&) const = default;
};
constexpr Step send(int to, Slice from) noexcept { return {Step::Verb::send, to, from, {}, {}, false, false}; }
constexpr Step recv(int from, Slice into) noexcept { return {Step::Verb::recv, from, into, {}, {}, false, false}; }
/// into = with (op) received data.
constexpr Step recv_reduce(int from, Slice into, Slice with) noexcept {
  return {Step::Verb::recv_reduce, from, into, with, {}, false, false};
}
constexpr Step recv_reduce(int from, Slice into) noexcept { return recv_reduce(from, into, into); }
constexpr Step copy(Slice into, Slice from) noexcept { return {Step::Verb::copy, -1, into, from, {}, false, false}; }
/// into = with (op) from, all local.
constexpr Step fold(Slice into, Slice with, Slice from) noexcept {
  return {Step::Verb::fold, -1, into, with, from, false, false};
}
/// A message without elements, and the receive for it; used by barriers.
constexpr Step notify(int to) noexcept { return {Step::Verb::send, to, {}, {}, {}, false, true}; }
constexpr Step await(int from) noexcept { return {Step::Verb::recv, from, {}, {}, {}, false, true}; }

/// Rounds run in order, and the steps of a round run concurrently: no step may write what another step of the same
/// round reads or writes. Messages between two ranks match in the order of the steps. In place, `in` and `out`
/// overlap as described in Collective; a plan must be correct with and without, and must not change `in` elsewhere.
/// Alltoall is an exception: in place, its plan gets a copy as `in`. A copy onto itself is free.
class Schedule {
 public:
  /// Appends a round. Steps of zero elements are dropped, and so is a round that has no others.
  void round(std::initializer_list<Step> steps) { round(std::vector<Step>(steps)); }
  void round(std::vector<Step> steps);

  /// Appends the rounds of `next`. Both use the same scratch, so `next` may overwrite what this schedule left there.
  Schedule& then(Schedule next);

  /// The same plan for a group whose rank i is members[i], with all offsets in `in` and `out` increased by `base`
  /// elements.
  Schedule on(std::span<const int> members, std::size_t base = 0) const;

  /// The same plan with `in` replaced by `out`: for a phase that continues on the result.
  Schedule in_place() const;

  /// Marks the elements of `slice` as complete: for avg, the last fold into them divides by the number of ranks. Call
  /// it after the rounds that fold. Throws std::logic_error if a fold covers both a part of `slice` and elements
  /// outside.
  void reduced(Slice slice);

  /// The same plan as an inner phase: none of its folds completes an element.
  Schedule partial() const;

  void use_scratch(std::size_t elements) { scratch_ = scratch_ < elements ? elements : scratch_; }

  const std::vector<std::vector<Step>>& rounds() const noexcept { return rounds_; }
  std::size_t scratch() const noexcept { return scratch_; }  ///< elements

 private:
  std::vector<std::vector<Step>> rounds_;
  std::size_t scratch_ = 0;
};

/// One line per round: "0: send 1 out[0,4) | recv_reduce 3 out[4,8)". For logs and tests.
std::string to_string(const Schedule& schedule);

}  // namespace tutti
