// The catalog of algorithms. Its table is generated from the files in algorithms/.
#include "collectives/plan/algorithm.hpp"

#include "collectives/plan/geometry.hpp"
#include "tutti/topology.hpp"

namespace tutti {

Cost cost_of(const Algorithm& algorithm, const Shape& shape) {
  return shape.size == 1 ? Cost{} : algorithm.cost(shape);
}

Crossing crossing_of(const Algorithm& algorithm, const Shape& shape) {
  return hosts_of(shape).count() == 1 ? Crossing{} : algorithm.crossing(shape);
}

const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept {
  for (const Algorithm* algorithm : catalog())
    if (algorithm->kind == kind && algorithm->name == name) return algorithm;
  return nullptr;
}

std::vector<std::string_view> algorithms_of(Kind kind) {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->kind == kind) names.push_back(algorithm->name);
  return names;
}

std::string algorithm_names(Kind kind) {
  std::string names;
  for (const std::string_view one : algorithms_of(kind)) names += (names.empty() ? "" : ", ") + std::string(one);
  return names;
}

}  // namespace tutti
