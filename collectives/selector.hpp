// Selector: ordered, printable rules that choose an algorithm for a call. First match wins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/algorithm.hpp"

namespace tutti {

/// Facts about a call that all ranks know alike; a rule may look at nothing else.
struct Call {
  Kind kind = Kind::allreduce;
  bool variable = false;
  std::size_t bytes = 0;  ///< per block; 0 for the v-forms
  int size = 1;
};

struct Rule {
  Kind kind;
  std::size_t low = 0, high = SIZE_MAX;  ///< bytes, low <= bytes <= high
  int size_low = 1, size_high = INT32_MAX;
  std::string algorithm;
  std::string source;  ///< "built in", "TUTTI_SELECT", ...
};

/// "allreduce: ..64K=recursive_doubling, 64K..@3..=ring; broadcast: ..=chain" (bytes, then @ranks). Throws
/// Error{invalid} that quotes the part it cannot read, or names the algorithms there are.
std::vector<Rule> parse_rules(std::string_view text, std::string_view source);
std::string to_string(const Rule& rule);

/// The named algorithm, if it can do this call; else throws Error{invalid} that says why not.
const Algorithm& required(std::string_view algorithm, const Call& call);

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::string why;  ///< "ring: rule 'allreduce: 64K..=ring' (built in)"
};

class Selector {
 public:
  /// `overrides` come before the built-in rules.
  explicit Selector(std::string_view overrides);
  const std::vector<Rule>& rules() const noexcept { return rules_; }

  /// The first rule that matches and whose algorithm can do it.
  const Algorithm* choose(const Call& call) const;
  Choice explain(const Call& call) const;

 private:
  const Rule* match(const Call& call) const;
  std::vector<Rule> rules_;
};

}  // namespace tutti
