// Schedule: what one rank does in a collective, as rounds of steps on slices. Pure data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "collectives/plan/range.hpp"
#include "transports/core/collective.hpp"

namespace tutti {

/// All that a plan may depend on. `count` is elements per block as in core/collective.hpp: of
/// the whole buffer (allreduce, reduce, broadcast), of one rank's share for the others. For the v-forms the
/// counts per rank are given instead, as in Collective.
struct Shape {
  int rank = 0;
  int size = 1;
  std::size_t count = 0;
  int root = 0;
  std::span<const std::size_t> in_counts = {};   ///< elements of each block of `in`, v-forms only
  std::span<const std::size_t> out_counts = {};  ///< elements of each block of `out`, v-forms only
  std::span<const int> host = {};                ///< by rank: which host it is on; empty: all are on one
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

/// One verb. Slices of a step have equal counts. round() drops steps of zero elements, but for signals.
struct Step {
  enum class Verb : std::uint8_t { send, recv, recv_reduce, copy, fold } verb = Verb::send;
  int peer = 0;         ///< -1 for copy and fold, which are local
  Slice slice;          ///< what is sent, or where the result goes
  Slice with;           ///< recv_reduce, fold: the first operand; copy: the source
  Slice from;           ///< fold: the second operand
  bool last = false;    ///< this fold completes its elements (see Schedule::reduced)
  bool signal = false;  ///< a message of zero elements that is meant: it is sent, and waited for
  bool operator==(const Step&) const = default;
};
constexpr Step send(int to, Slice from) noexcept { return {Step::Verb::send, to, from, {}, {}, false, false}; }
constexpr Step recv(int from, Slice into) noexcept { return {Step::Verb::recv, from, into, {}, {}, false, false}; }
/// into = with (op) received.
constexpr Step recv_reduce(int from, Slice into, Slice with) noexcept {
  return {Step::Verb::recv_reduce, from, into, with, {}, false, false};
}
constexpr Step recv_reduce(int from, Slice into) noexcept { return recv_reduce(from, into, into); }
constexpr Step copy(Slice into, Slice from) noexcept { return {Step::Verb::copy, -1, into, from, {}, false, false}; }
/// into = with (op) from, all of them here.
constexpr Step fold(Slice into, Slice with, Slice from) noexcept {
  return {Step::Verb::fold, -1, into, with, from, false, false};
}
/// A message without elements, and waiting for one: what a barrier is made of.
constexpr Step notify(int to) noexcept { return {Step::Verb::send, to, {}, {}, {}, false, true}; }
constexpr Step await(int from) noexcept { return {Step::Verb::recv, from, {}, {}, {}, false, true}; }

/// Rounds in order; the steps of a round run together, and no step of a round writes
/// what another step of it reads or writes. Messages between two ranks match in the order of
/// the steps. In place, `in` and `out` are the same memory (for the kinds with blocks, as Collective says):
/// a plan must be right either way, and must leave `in` as it was where it is not `out`.
/// Alltoall alone is never planned for that: in place, it is given a copy as `in`.
/// A copy onto itself costs nothing.
class Schedule {
 public:
  /// Without the steps that do nothing; a round that has no others is not there at all.
  void round(std::initializer_list<Step> steps) { round(std::vector<Step>(steps)); }
  void round(std::vector<Step> steps);

  /// This, afterwards that. They share one scratch, so what this leaves there lasts unless that uses the place.
  Schedule& then(Schedule next);

  /// The same plan spoken among `members` (its rank i becomes members[i]), with every slice of
  /// `in` and `out` moved up by `base` elements.
  Schedule on(std::span<const int> members, std::size_t base = 0) const;

  /// The same plan with `out` in place of `in`: for a phase that continues in the result.
  Schedule in_place() const;

  /// Declares that the elements of `slice` are complete here: the last fold into them is the one that
  /// divides by the number of ranks for avg. Call it after the rounds that fold. Throws std::logic_error
  /// where a fold covers a part of `slice` and something beyond it.
  void reduced(Slice slice);

  /// The same plan as an inner phase: none of its folds is the last one.
  Schedule partial() const;

  void use_scratch(std::size_t elements) { scratch_ = scratch_ < elements ? elements : scratch_; }

  const std::vector<std::vector<Step>>& rounds() const noexcept { return rounds_; }
  std::size_t scratch() const noexcept { return scratch_; }  ///< elements

 private:
  std::vector<std::vector<Step>> rounds_;
  std::size_t scratch_ = 0;
};

/// One line a round: "0: send 1 out[0,4) | recv_reduce 3 out[4,8)". For people and traces.
std::string to_string(const Schedule& schedule);

}  // namespace tutti
