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

#include "tutti/parameter_server.hpp"
#include "tutti/rule.hpp"

namespace tutti::engine {

/// How a master steps the centre c by the merged delta D. The rate g is the factor of the round's last push.
///
///     sgd               c -= g D
///     heavyball         v = m v + D;  c -= g v
///     nesterov          v = m v + D;  c -= g (D + m v)
///     delayed_nesterov  c -= g D / N;  s += D;  every N-th time: v = m v + s / N, c -= g m v, s = 0
///     adam              first and second moments with m and `decay`, bias-corrected:
///                       c -= g sqrt(1 - decay^t) / (1 - m^t) first / (sqrt(second) + epsilon)
struct MasterStep {
  enum class Rule : std::uint8_t { sgd, heavyball, nesterov, delayed_nesterov, adam };
  Rule rule = Rule::sgd;
  double momentum = 0;     ///< m
  std::int64_t every = 1;  ///< N
  double decay = 0.999;    ///< of the second moment
  double epsilon = 1e-8;
};

/// How the deltas of one round are merged.
enum class MasterMerge : std::uint8_t {
  mean,
  sum,
  tokens,  ///< mean weighted by tokens^2 / steps
  radial   ///< for each tensor: the mean length times the mean direction, weighted as with tokens
};

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

struct DeltaRule {
  MasterStep step = {};
  MasterMerge merge = MasterMerge::mean;
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
