// Server rules of training: how a master updates its parameters, called the centre, by what workers push. Without
// LibTorch.
//
// Downpour (Dean et al., NIPS 2012), EASGD (Zhang, Choromanska & LeCun, NIPS 2015), delayed Nesterov (Liu et al. 2024),
// and the quorum, token weights and radial mean of Decoupled DiLoCo (2026). A delta is the parameters that a worker
// began with, minus those that it has reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/strategies/outer_rules.hpp"
#include "tutti/parameter_server.hpp"
#include "tutti/rule.hpp"

namespace tutti::engine {

/// What a master does with a delta that was computed from an older centre. Its staleness is the number of updates
/// since.
struct StalenessPolicy {
  enum class What : std::uint8_t { take, reject, damp } what = What::take;
  std::uint64_t most = 0;  ///< reject: the largest staleness that is accepted

  /// The factor of a delta: 0 if it is rejected, 1 / (1 + staleness) if it is damped. The worker gets the new centre in
  /// any case.
  double factor(std::uint64_t staleness) const noexcept;
};

/// The workers' parameters in this shard after their last pushes, by rank, in the values' type. For dumps.
struct WorkerCopies {
  std::map<int, std::vector<std::byte>> values;
  /// A push that waits in a round stands in for its worker's copy: the ledger counts its steps as done, so the worker
  /// goes on from what it pushed.
  std::vector<std::byte> save(std::span<const Pushed> waiting) const;
  void load(std::span<const std::byte> saved);
};

/// How a master merges the deltas of a round, and steps the centre by the result. The rate is the factor of the round's
/// last push.
struct DeltaRule {
  OuterRule outer = {.rule = Axes::Outer::sgd};
  Axes::Merge merge = Axes::Merge::mean;  ///< mean, sum, tokens, or radial, which weighs as tokens
  StalenessPolicy staleness = {};
  std::vector<tutti::Range> tensors = {};  ///< in the whole buffer, for radial; empty: one tensor
  int quorum = 1;
  double grace = 0;
};

/// Values: the centre. Data: a delta. push_pull() returns the centre after the round.
ServerRule delta_rule(const DeltaRule& rule);

/// Values: the centre c. Data: a worker's x. Adds d = factor (x - c) of each worker of the round, all computed from the
/// same c, and answers d. If workers subtract d, the sum of c and all x is conserved. `copies`, if given, receives
/// x - here d of each worker.
ServerRule elastic_rule(int quorum = 1, double grace = 0, std::shared_ptr<WorkerCopies> copies = nullptr,
                        double here = 1);

/// Answers with the worker's copy, or with the centre if there is none. Changes nothing.
ServerRule own_rule(std::shared_ptr<WorkerCopies> copies);

/// Values: the centre. The first push sets it; later pushes change nothing.
ServerRule first_rule();

}  // namespace tutti::engine
