// Selector: ordered, printable rules that choose a backend, and an algorithm of it, for a call. First match wins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/backend.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/settings.hpp"

namespace tutti {

/// Facts about a call that all ranks know alike; a rule may look at nothing else.
struct Facts {
  Kind kind = Kind::allreduce;
  std::size_t bytes = 0;  ///< per block; 0 for the v-forms
  int size = 1;
  int hosts = 1;
  Device::Kind device = Device::Kind::cpu;
};

/// LOW..HIGH, both included.
struct Span {
  std::size_t low = 0, high = SIZE_MAX;
  bool has(std::size_t value) const noexcept { return low <= value && value <= high; }
};

/// Who does a call: a backend, and its algorithm where one is named.
struct Target {
  std::string backend;
  std::string algorithm;  ///< empty: the backend's default
};

struct Rule {
  std::optional<Kind> kind;  ///< nothing: every kind
  Span bytes, ranks, hosts;
  std::optional<Device::Kind> device;  ///< nothing: any
  Target target;
  std::string source;  ///< "built in", "TUTTI_SELECT", ...

  bool matches(const Facts& facts) const noexcept;
};

/// "allreduce: ..64K=recursive_doubling, 64K.. ranks 3.. hosts 2..=ring; *: 1M.. on cpu=mpi", that is
/// KIND: BYTES [ranks SPAN] [hosts SPAN] [on cpu|cuda] = [BACKEND/]ALGORITHM | BACKEND. A bare name is an algorithm
/// of our own plans if there is one of that name, else a backend. Throws Error{invalid} that quotes the part it
/// cannot read, and says what there is.
std::vector<Rule> parse_rules(std::string_view text, std::string_view source, std::span<const std::string> backends);
std::string to_string(const Rule& rule);

/// A target as a rule or CallOptions::algorithm writes it. Throws Error{invalid}.
Target parse_target(std::string_view text, std::optional<Kind> kind, std::span<const std::string> backends);

/// The backends of one communicator.
using Backends = std::vector<std::shared_ptr<Backend>>;

struct Choice {
  Backend* backend = nullptr;  ///< null: nobody can
  std::string_view algorithm;  ///< of the rule, or of what was wanted; empty: the backend's default
  const Rule* rule = nullptr;  ///< null: no rule fitted
};

class Selector {
 public:
  /// Rules in order: those of the setting `select`, one for each word of `backend`, the measured ones in `tuned`, then
  /// the built-in ones. `backends` are the names that rules may use. What `tuned` says of others is passed over.
  Selector(const Settings& settings, std::string_view tuned, std::vector<std::string> backends);

  const std::vector<Rule>& rules() const noexcept { return rules_; }
  const std::vector<std::string>& known_backends() const noexcept { return known_; }

  /// Backends that a rule names for communicators of this many ranks and hosts, our own plans aside.
  struct Named {
    std::string backend;
    bool insisted = false;  ///< by the setting `backend`
  };
  std::vector<Named> named(int size, int hosts) const;

  /// The first rule that matches, whose backend is there and can do it; else the first backend that can.
  Choice choose(const Collective& call, const Facts& facts, const Backends& backends) const;

  /// `wanted` and nothing else; of our own plans the built-in rules choose one where none is named. Throws
  /// Error{invalid, unsupported} that says why not.
  Choice require(std::string_view wanted, const Collective& call, const Facts& facts, const Backends& backends) const;

  /// "planned/ring: rule '...' (built in); not chosen: ...", one line.
  std::string explain(const Collective& call, const Facts& facts, const Backends& backends) const;

 private:
  Choice first_match(const Collective& call, const Facts& facts, const Backends& backends) const;
  Choice first_plan(const Collective& call, const Facts& facts, const Backends& backends) const;

  std::vector<std::string> known_;
  std::vector<Rule> rules_;
  std::size_t built_in_ = 0;  // where those rules begin
};

}  // namespace tutti
