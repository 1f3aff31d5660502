// Asks the communicator about every case. Its buffers are addresses that are never accessed.
#include "tools/bench/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace tutti::bench {

std::string explain(const Communicator& world, const Case& what, std::byte* memory) {
  if (what.kind == Kind::send) return "point to point: there is nothing to choose";
  Collective call;
  call.kind = what.kind;
  call.op = what.op;
  call.root = what.root;
  call.out = Buffer(memory, what.out_count(), what.dtype);
  call.in = ConstBuffer(memory + what.out_count() * size_of(what.dtype), what.in_count(), what.dtype);
  if (what.kind == Kind::barrier) call.in = {}, call.out = {};
  if (what.kind == Kind::broadcast) call.in = {};
  return world.explain(call);
}

namespace {

/// Returns the part of an explanation that names the choice. Costs, which follow it, differ from size to size.
std::string_view choice_in(std::string_view why) {
  constexpr std::string_view cost = "the least cost";
  const std::size_t at = why.find(cost);
  return at == why.npos ? why : why.substr(0, at + cost.size());
}

}  // namespace

std::vector<std::string> explain_sizes(const Communicator& world, const Request& request) {
  const std::vector<Case> all = cases(request, world.size());
  std::size_t most = 64;
  for (const Case& what : all) most = std::max(most, (what.in_count() + what.out_count()) * size_of(what.dtype));
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(most);  // only its addresses are used
  struct Run {
    std::size_t first, last;
    std::string why;
  };
  std::vector<Run> runs;
  for (const Case& what : all) {
    std::string why = request.algorithm.empty() || what.kind == Kind::send ? explain(world, what, memory.get())
                                                                           : request.algorithm + ": by --algorithm";
    if (runs.empty() || choice_in(runs.back().why) != choice_in(why))
      runs.push_back({what.bytes(), what.bytes(), std::move(why)});
    runs.back().last = what.bytes();
  }
  std::vector<std::string> lines;
  for (const Run& run : runs)
    lines.push_back(run.first == run.last ? fmt::format("{} bytes: {}", run.first, run.why)
                                          : fmt::format("{} to {} bytes: {}", run.first, run.last, run.why));
  return lines;
}

}  // namespace tutti::bench
