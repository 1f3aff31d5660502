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

/// What rules may name.
struct Known {
  std::span<const std::string> backends;  ///< besides the built-in plans
  const Settings& settings;               ///< say where modules are
};

/// Parses rules like "allreduce: ..64K=recursive_doubling, 64K.. ranks 3.. hosts 2..=ring; *: 1M.. on cpu=mpi", of
/// the form KIND: BYTES [ranks SPAN] [hosts SPAN] [on cpu|cuda] = [BACKEND/]ALGORITHM | BACKEND. A single name is an
/// algorithm of the built-in plans if there is one of that name, else a backend. `source` is copied into each rule.
/// A sentence "network: ..." is no rule, and is passed over. Throws Error{invalid} that quotes the part it cannot
/// parse, or that names what its backend does not have (see rules::check_target), and lists the valid names.
std::vector<Rule> parse_rules(std::string_view text, std::string_view source, const Known& known);
std::string to_string(const Rule& rule);

/// Parses a target as rules and CallOptions::algorithm write it. Throws Error{invalid}.
Target parse_target(std::string_view text, std::optional<Kind> kind, std::span<const std::string> backends);

class PlannedBackend;

/// The backends of one communicator.
using Backends = std::vector<std::shared_ptr<Backend>>;

struct Choice {
  Backend* backend = nullptr;  ///< null: no backend supports the call
  std::string_view algorithm;  ///< as given by the rule or the caller; empty: the backend's default
  const Rule* rule = nullptr;  ///< null: no rule matched
  std::size_t piece = 0;       ///< see Call::piece
  bool by_cost = false;        ///< the plan of the least cost
};

class Selector {
 public:
  /// The rules in order: the setting `select`, one rule per name in the setting `backend`, the measured rules in
  /// `tuned`, the built-in rules. `backends` are the names that rules may use; rules of `tuned` with other names are
  /// skipped.
  Selector(const Settings& settings, std::string_view tuned, std::vector<std::string> backends);

  /// What messages cost, by which algorithms between hosts are chosen: a sentence "network: ..." of the setting
  /// `select` or of `tuned` says it, as model::parse_network() takes it, or else the setting `net`, or else nobody.
  const model::Network& network() const noexcept { return network_; }

  const std::vector<Rule>& rules() const noexcept { return rules_; }
  const std::vector<std::string>& known_backends() const noexcept { return known_; }

  /// A backend other than the built-in plans that a rule names for communicators of this many ranks and hosts.
  struct Named {
    std::string backend;
    bool insisted = false;  ///< whether the setting `backend` names it
    bool by_user = false;   ///< whether the setting `select` names it
  };
  std::vector<Named> named(int size, int hosts) const;
  /// True at the first call with this name, which tells the user that the rules for a backend are passed over. Any
  /// thread.
  bool is_first_to_tell(const std::string& backend) const;

  /// The target of the first matching rule whose backend exists and supports the call; else the first backend that
  /// supports it.
  Choice choose(const Collective& call, const Facts& facts, const Backends& backends) const;

  /// The target `wanted`, without using the rules, except to choose the algorithm of the built-in plans if none is
  /// named. Throws Error{invalid, unsupported} with the reason.
  Choice require(std::string_view wanted, const Collective& call, const Facts& facts, const Backends& backends) const;

  /// One line: "planned/ring: rule '...' (built in); not chosen: ...".
  std::string explain(const Collective& call, const Facts& facts, const Backends& backends) const;

 private:
  Choice first_match(const Collective& call, const Facts& facts, const Backends& backends) const;
  Choice first_plan(const Collective& call, const Facts& facts, const Backends& backends, const Rule* by) const;
  Choice named(Backend* backend, std::string_view algorithm, const Rule* rule, const Collective& call,
               const Facts& facts) const;
  /// Messages go over a network, so that plans are chosen by their cost.
  bool uses_network(const Facts& facts) const noexcept { return facts.hosts > 1 || host_uses_network_; }
  const model::Network& network_of(const PlannedBackend& plans) const noexcept;
  model::Limits limits_of(const PlannedBackend& plans) const noexcept;
  std::string cost_text(const Collective& call, const PlannedBackend& plans) const;
  std::vector<model::Candidate> by_cost(const Collective& call, const PlannedBackend& plans) const;

  std::vector<std::string> known_;
  std::vector<Rule> rules_;
  model::Network network_, network_of_host_;  // the second for hosts whose own ranks use their network
  model::Limits limits_;
  bool host_uses_network_ = false;  // also between ranks of one host, by the setting `transport`
  std::size_t built_in_ = 0;        // index of the first built-in rule
  mutable std::mutex mutex_;
  mutable std::set<std::string> told_;  // the arguments of is_first_to_tell(); guarded by mutex_
};

}  // namespace tutti
