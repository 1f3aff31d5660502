// Server rules of training: how a master updates its parameters, the centre, from what workers push. Without LibTorch.
//
// The rules are Downpour (Dean et al., NIPS 2012), EASGD (Zhang, Choromanska & LeCun, NIPS 2015), delayed Nesterov (Liu
// et al. 2024), and the quorum, token weights and radial mean of Decoupled DiLoCo (2026). A delta is the parameters
// that a worker began with, minus the parameters that it has reached.
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

/// What a master does with a delta that was computed from an older centre. The delta's staleness is the number of
/// updates of the centre since then.
struct StalenessPolicy {
  enum class What : std::uint8_t { take, reject, damp } what = What::take;
  std::uint64_t most = 0;  ///< reject: the largest staleness that is accepted

  /// Returns the factor of a delta: 0 if it is rejected, 1 / (1 + staleness) if it is damped, otherwise 1. In all cases
  /// the worker gets the new centre.
  double factor(std::uint64_t staleness) const noexcept;
};

/// The workers' parameters in this shard after their last pushes, by rank, in the type of the values. Part of dumps.
struct WorkerCopies {
  std::map<int, std::vector<std::byte>> values;
  /// A push in an open round (`waiting`) replaces its worker's copy in the dump. The ledger counts its steps as done,
  /// so after load() the worker continues from the pushed parameters.
  std::vector<std::byte> save(std::span<const Pushed> waiting) const;
  void load(std::span<const std::byte> saved);
};

/// How a master merges the deltas of a round and steps the centre by the merged delta. The rate of the step is the
/// factor of the round's last push.
struct DeltaRule {
  OuterRule outer = {.rule = Axes::Outer::sgd};
  Axes::Merge merge = Axes::Merge::mean;  ///< mean, sum, tokens, or radial, which weights deltas as tokens does
  StalenessPolicy staleness = {};
  std::vector<tutti::Range> tensors = {};  ///< for radial: the tensors' ranges in the whole buffer; empty: one tensor
  int quorum = 1;
  double grace = 0;
};

/// The buffer's values are the centre; pushed data are a delta. push_pull() returns the centre after the round.
ServerRule delta_rule(const DeltaRule& rule);

/// The buffer's values are the centre c; pushed data are a worker's x. For each worker of the round, adds d = factor (x
/// - c) to c and answers d; all d are computed from the same c. If workers subtract d, the sum of c and all x is
/// conserved. If `copies` is given, it receives x - here d of each worker.
ServerRule elastic_rule(int quorum = 1, double grace = 0, std::shared_ptr<WorkerCopies> copies = nullptr,
                        double here = 1);

/// Answers with the worker's copy, or with the centre if there is no copy. Changes nothing.
ServerRule own_rule(std::shared_ptr<WorkerCopies> copies);

/// The buffer's values are the centre. The first push sets it; later pushes change nothing.
ServerRule first_rule();

}  // namespace tutti::engine
