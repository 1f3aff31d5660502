#include "engine/strategies/fragments.hpp"

#include <algorithm>
#include <cctype>

#include "tutti/status.hpp"

namespace tutti::engine {

std::string_view block_of(std::string_view parameter) {
  for (std::size_t begin = 0; begin < parameter.size();) {
    const std::size_t end = std::min(parameter.find('.', begin), parameter.size());
    const std::string_view word = parameter.substr(begin, end - begin);
    const bool number =
        !word.empty() && std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number) return parameter.substr(0, end);
    begin = end + 1;
  }
  return parameter.substr(0, parameter.find('.'));
}

std::vector<std::size_t> fragments_of(std::span<const std::string> parameters, std::size_t fragments) {
  std::vector<std::string_view> blocks;
  std::vector<std::size_t> found;
  for (const std::string& each : parameters) {
    const std::string_view block = block_of(each);
    const auto same = std::ranges::find(blocks, block);
    found.push_back(static_cast<std::size_t>(same - blocks.begin()) % fragments);
    if (same == blocks.end()) blocks.push_back(block);
  }
  if (blocks.size() < fragments)
    throw Error(Code::invalid, "strategy.fragments=" + std::to_string(fragments) + ": the network has " +
                                   std::to_string(blocks.size()) + " blocks of parameters; say at most so many");
  audit_fragments(found, fragments);
  return found;
}

void audit_fragments(std::span<const std::size_t> fragment_of, std::size_t fragments) {
  std::vector<std::size_t> parameters(fragments, 0);
  for (const std::size_t each : fragment_of) {
    if (each >= fragments) throw Error(Code::internal, "a parameter is in none of the fragments");
    ++parameters[each];
  }
  if (std::ranges::find(parameters, 0U) != parameters.end())
    throw Error(Code::internal, "a fragment is without a parameter");
}

bool fragment_is_due(std::int64_t steps, std::int64_t fragment, std::int64_t fragments, std::int64_t every) {
  const std::int64_t first = (fragment + 1) * every / fragments;
  return steps >= first && (steps - first) % every == 0;
}

}  // namespace tutti::engine
