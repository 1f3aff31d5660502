// The catalog of algorithms. Its table is generated from the files in algorithms/.
#include "collectives/plan/algorithm.hpp"

namespace tutti {

const Algorithm* find_algorithm(Kind kind, std::string_view name) noexcept {
  for (const Algorithm* algorithm : catalog())
    if (algorithm->kind == kind && algorithm->name == name) return algorithm;
  return nullptr;
}

std::string algorithm_names(Kind kind) {
  std::string names;
  for (const Algorithm* algorithm : catalog())
    if (algorithm->kind == kind) names += (names.empty() ? "" : ", ") + std::string(algorithm->name);
  return names;
}

}  // namespace tutti
