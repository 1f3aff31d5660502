#include "tools/plan/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/plan/text.hpp"
#include "transports/core/layout.hpp"

namespace tutti::planning {
namespace {

constexpr int most_unasked_ranks = 1024;
constexpr std::size_t most_unasked_messages = 100'000;
constexpr std::size_t most_elements = std::size_t{32} << 20;  // in the buffers of all ranks together, 8 bytes each

/// Returns how many elements the buffers of all ranks have for each element of the call's block or buffer.
std::size_t elements_of_all(const Request& request) {
  const auto ranks = static_cast<std::size_t>(request.shape.size);
  const std::size_t in = blocks_in(request.kind, request.shape.size),
                    out = blocks_out(request.kind, request.shape.size);
  const std::size_t scratch = std::max(in, out);  // an approximation
  if (has_root(request.kind)) return ranks * (2 + (scratch == 1 ? 1 : 0)) + in + out;
  return ranks * (in + out + scratch);
}

/// Returns the call with fewer elements and lanes, if its lanes have too many elements.
model::Collective made_small(const model::Collective& call, const Request& request) {
  const std::size_t fitting = std::max<std::size_t>(most_elements / elements_of_all(request), 1);
  if (call.lanes.count <= fitting) return call;
  model::Collective small = call;
  const int ways = ways_of(*call.algorithm, call.shape);
  small.lanes = {std::min(call.lanes.number, static_cast<std::size_t>(std::max(ways, 2))), fitting};
  const bool last_is_shorter = call.lanes.number * call.lanes.count != call.shape.count && fitting > 1;
  small.shape.count = small.lanes.number * fitting - (last_is_shorter ? 1 : 0);
  return small;
}

}  // namespace

Verdict verdict_of(const Row& row, const Request& request) {
  using enum Verdict::Outcome;
  const std::size_t messages = messages_of(row.counts());
  if (!request.check && !request.whole) {
    if (request.shape.size > most_unasked_ranks)
      return {skipped, fmt::format("skipped: {} ranks; --check does it",
                                   count_text(static_cast<std::size_t>(request.shape.size)))};
    if (messages > most_unasked_messages || !row.counted.whole)
      return {skipped, fmt::format("skipped: {}{} messages; --check does it", row.counted.whole ? "" : "more than ",
                                   count_text(messages))};
  }
  const model::Collective call = request.whole ? row.call : made_small(row.call, request);
  if (const std::string defect = model::check(call); !defect.empty()) return {wrong, "WRONG: " + defect};
  std::string text =
      request.kind == Kind::barrier ? "right: no deadlock" : "right: each contribution once, no deadlock";
  if (call.shape.count < row.call.shape.count) {
    text += fmt::format("; with {} of {} elements", count_text(call.shape.count), count_text(row.call.shape.count));
    if (call.lanes.number < row.call.lanes.number)
      text += fmt::format(" in {} of {} lanes", call.lanes.number, count_text(row.call.lanes.number));
    text += " (--whole: with all)";
  }
  return {right, text};
}

}  // namespace tutti::planning
