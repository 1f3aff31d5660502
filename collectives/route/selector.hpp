// Selector: ordered rules that choose a backend and an algorithm for a call. The first matching rule wins.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/model/estimate.hpp"
#include "tutti/collective.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/settings.hpp"

namespace tutti {

/// The properties of a call that are equal on all ranks; rules may depend on nothing else.
struct Facts {
  Kind kind = Kind::allreduce;
  std::size_t bytes = 0;  ///< per block; 0 for the v-forms
  int size = 1;
  int hosts = 1;
  Device::Kind device = Device::Kind::cpu;
};

/// The range LOW..HIGH, both bounds included.
struct Span {
  std::size_t low = 0, high = SIZE_MAX;
  bool has(std::size_t value) const noexcept { return low <= value && value <= high; }
};

/// A backend, and optionally one of its algorithms.
struct Target {
  std::string backend;
  std::string algorithm;  ///< empty: the backend's default
};

struct Rule {
  std::optional<Kind> kind;  ///< nullopt: every kind
  Span bytes, ranks, hosts;
  std::optional<Device::Kind> device;  ///< nullopt: any device
  Target target;
  std::string source;  ///< where the rule comes from: "built in", "TUTTI_SELECT", ...

  bool matches(const Facts& facts) const noexcept;
};

/// The names that rules may use.
struct Known {
  std::span<const std::string> backends;  ///< the names of backends, without the built-in plans
  const Settings& settings;               ///< contain the folders of modules
};

/// Parses rules like "allreduce: ..64K=recursive_doubling, 64K.. ranks 3.. hosts 2..=ring; *: 1M.. on cpu=mpi", of
/// the form KIND: BYTES [ranks SPAN] [hosts SPAN] [on cpu|cuda] = [BACKEND/]ALGORITHM | BACKEND. A single name is an
/// algorithm of the built-in plans if there is one of that name, else a backend. `source` is copied into each rule.
/// A sentence "network: ..." is no rule; it is only checked. Throws Error{invalid}, which quotes the part that cannot
/// be parsed, or names what the backend does not have (see rules::check_target) and lists the valid names.
std::vector<Rule> parse_rules(std::string_view text, std::string_view source, const Known& known);
std::string to_string(const Rule& rule);

/// Parses a target in the syntax of rules and of CallOptions::algorithm. Throws Error{invalid}.
Target parse_target(std::string_view text, std::optional<Kind> kind, std::span<const std::string> backends);

class PlannedBackend;

/// The backends of one communicator.
using Backends = std::vector<std::shared_ptr<Backend>>;

struct Choice {
  Backend* backend = nullptr;  ///< null: no backend supports the call
  std::string_view algorithm;  ///< as given by the rule or the caller; empty: the backend's default
  const Rule* rule = nullptr;  ///< null: no rule matched
  std::size_t piece = 0;       ///< bytes that a rank forwards at a time: Call::piece
  bool by_cost = false;        ///< true: the built-in plan with the least estimated cost
};

class Selector {
 public:
  /// The rules in order: the setting `select`, one rule per name in the setting `backend`, the measured rules in
  /// `tuned`, the built-in rules. `backends` are the names that rules may use; rules of `tuned` with other names are
  /// skipped.
  Selector(const Settings& settings, std::string_view tuned, std::vector<std::string> backends);

  /// The network by whose costs algorithms between hosts are chosen; see rules::network_of().
  const model::Network& network() const noexcept { return network_; }

  const std::vector<Rule>& rules() const noexcept { return rules_; }
  const std::vector<std::string>& known_backends() const noexcept { return known_; }

  /// A backend other than the built-in plans that a rule names for communicators of this many ranks and hosts.
  struct Named {
    std::string backend;
    bool insisted = false;  ///< true: the setting `backend` names it
    bool by_user = false;   ///< true: the setting `select` names it
  };
  std::vector<Named> named(int size, int hosts) const;
  /// True for the first call with this name: the caller then warns the user that the rules for this backend are
  /// ignored. Any thread.
  bool is_first_to_tell(const std::string& backend) const;

  /// Returns the target of the first matching rule whose backend exists and supports the call, or else the first
  /// backend that supports the call. If plans are chosen by cost, the cheapest plan replaces a built-in rule's
  /// algorithm.
  Choice choose(const Collective& call, const Facts& facts, const Backends& backends) const;

  /// Returns the target `wanted`, regardless of the rules. If it names the built-in plans and no algorithm, chooses one
  /// by cost or by the built-in rules. Throws Error{invalid, unsupported} with the reason.
  Choice require(std::string_view wanted, const Collective& call, const Facts& facts, const Backends& backends) const;

  /// One line: "planned/ring: rule '...' (built in); not chosen: ...".
  std::string explain(const Collective& call, const Facts& facts, const Backends& backends) const;

 private:
  Choice first_match(const Collective& call, const Facts& facts, const Backends& backends) const;
  Choice first_plan(const Collective& call, const Facts& facts, const Backends& backends, const Rule* by) const;
  Choice named(Backend* backend, std::string_view algorithm, const Rule* rule, const Collective& call,
               const Facts& facts) const;
  /// True if messages go over a network; then plans are chosen by their cost.
  bool uses_network(const Facts& facts) const noexcept { return facts.hosts > 1 || host_uses_network_; }
  const model::Network& network_of(const PlannedBackend& plans) const noexcept;
  model::Limits limits_of(const PlannedBackend& plans) const noexcept;
  std::string cost_text(const Collective& call, const PlannedBackend& plans) const;
  std::vector<model::Candidate> by_cost(const Collective& call, const PlannedBackend& plans) const;

  std::vector<std::string> known_;
  std::vector<Rule> rules_;
  model::Network network_, network_of_host_;  // the second for communicators of one host without shared memory
  model::Limits limits_;
  bool host_uses_network_ = false;  // the setting `transport` has no shared memory, so ranks of a host use a network
  std::size_t built_in_ = 0;        // index of the first built-in rule
  mutable std::mutex mutex_;
  mutable std::set<std::string> told_;  // the arguments of is_first_to_tell(); guarded by mutex_
};

}  // namespace tutti
