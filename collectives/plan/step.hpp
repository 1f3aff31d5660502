// Step: one operation of a schedule, on slices of a rank's three memories. Plain data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/buffer.hpp"
#include "tutti/collective.hpp"

namespace tutti {

enum class Memory : std::uint8_t { in, out, scratch };

/// `count` elements from `offset` on. If `run` is not 0, they are runs of `run` contiguous elements. Each run begins
/// `stride` elements after the beginning of the previous run; `stride` may be negative. The last run may be shorter.
struct Slice {
  Memory memory = Memory::out;
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t run = 0;        ///< elements of a run; 0: all elements are contiguous
  std::ptrdiff_t stride = 0;  ///< used only if `run` is not 0
  bool operator==(const Slice&) const = default;

  /// The position of the slice's element i in its memory.
  std::size_t at(std::size_t i) const noexcept {
    return run == 0 ? offset + i : offset + i / run * static_cast<std::size_t>(stride) + i % run;
  }
  /// The number of contiguous elements from element i on.
  std::size_t together(std::size_t i) const noexcept {
    return run == 0 ? count - i : std::min(count - i, run - i % run);
  }
};
constexpr Slice in(Range r) noexcept { return {Memory::in, r.offset, r.count}; }
constexpr Slice out(Range r) noexcept { return {Memory::out, r.offset, r.count}; }
constexpr Slice scratch(Range r) noexcept { return {Memory::scratch, r.offset, r.count}; }
/// A slice with the same offset and count, in runs.
constexpr Slice in_runs(Slice slice, std::size_t run, std::ptrdiff_t stride) noexcept {
  slice.run = run;
  slice.stride = stride;
  return slice;
}

/// One operation. All slices of a step have the same count; only those of a copy may have runs. A schedule drops steps
/// of zero elements, except signals.
struct Step {
  enum class Verb : std::uint8_t { send, recv, recv_reduce, copy, fold } verb = Verb::send;
  bool last = false;    ///< this fold completes its elements: for avg, it divides by the number of ranks
  bool signal = false;  ///< a message of zero elements that is really sent (barriers)
  int peer = 0;         ///< -1 for copy and fold, which are local
  Slice slice;          ///< the data sent, or the destination of the result
  Slice with;           ///< recv_reduce, fold: the first operand; copy: the source
  Slice from;           ///< fold: the second operand
  bool operator==(const Step&) const = default;

  bool folds() const noexcept { return verb == Verb::recv_reduce || verb == Verb::fold; }
  bool is_local() const noexcept { return verb == Verb::copy || verb == Verb::fold; }
};
constexpr Step send(int to, Slice from) noexcept { return {Step::Verb::send, false, false, to, from, {}, {}}; }
constexpr Step recv(int from, Slice into) noexcept { return {Step::Verb::recv, false, false, from, into, {}, {}}; }
/// into = with (op) received data.
constexpr Step recv_reduce(int from, Slice into, Slice with) noexcept {
  return {Step::Verb::recv_reduce, false, false, from, into, with, {}};
}
constexpr Step recv_reduce(int from, Slice into) noexcept { return recv_reduce(from, into, into); }
constexpr Step copy(Slice into, Slice from) noexcept { return {Step::Verb::copy, false, false, -1, into, from, {}}; }
/// into = with (op) from, all local.
constexpr Step fold(Slice into, Slice with, Slice from) noexcept {
  return {Step::Verb::fold, false, false, -1, into, with, from};
}
/// A message without elements, and the receive for it; used by barriers.
constexpr Step notify(int to) noexcept { return {Step::Verb::send, false, true, to, {}, {}, {}}; }
constexpr Step await(int from) noexcept { return {Step::Verb::recv, false, true, from, {}, {}, {}}; }
/// The fold `step`, marked as completing its elements if `is_last`. Every element of a result must be completed exactly
/// once, by the last fold into it.
constexpr Step last(Step step, bool is_last = true) noexcept {
  step.last = is_last;
  return step;
}

inline bool does_nothing(const Step& step) noexcept {
  if (step.signal) return false;
  return step.slice.count == 0 || (step.verb == Step::Verb::copy && step.slice == step.with);
}

/// Calls each(into, from, count) for every part of a copy that is contiguous in both slices. `into` and `from` are
/// positions in elements.
template <typename Each>
void each_run(const Slice& into, const Slice& from, Each each) {
  for (std::size_t i = 0; i < into.count;) {
    const std::size_t count = std::min(into.together(i), from.together(i));
    each(into.at(i), from.at(i), count);
    i += count;
  }
}

/// Text such as "recv_reduce 3 out[4,8) = in[4,8) (op) received".
std::string to_string(const Step& step);

}  // namespace tutti
