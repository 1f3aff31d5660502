// A run's configuration, and other YAML files: all nodes are visited, and all keys are set and checked.
#include "engine/config.hpp"
#include "engine/config/documents.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

std::size_t nodes_in(const YAML::Node& node) {
  std::size_t count = 1;
  if (node.IsSequence())
    for (const auto& each : node) count += nodes_in(each);
  if (node.IsMap())
    for (const auto& each : node) count += nodes_in(each.first) + nodes_in(each.second);
  return count;
}

}  // namespace

bool take(Input input) {
  const auto file = file_with(input, ".yaml");
  refuses(
      [&] {
        const engine::DocumentLimits limits;
        expect(nodes_in(engine::read_yaml(file, limits)) <= limits.nodes, "a document has more nodes than the limit");
      },
      file.string());
  engine::Config config;
  const bool read = !refuses([&] { config.read(file); }, file.string());
  return read && !refuses([&] { config.check(); });
}

}  // namespace tutti::fuzz
