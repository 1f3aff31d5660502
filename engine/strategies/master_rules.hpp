// What a server that keeps the parameters does with what workers push: functions for a ParameterServer, without
// LibTorch.
//
// Downpour (Dean et al., NIPS 2012), EASGD (Zhang, Choromanska & LeCun, NIPS 2015), delayed Nesterov (Liu et al. 2024),
// and the quorum, token weights and radial mean of Decoupled DiLoCo (2026). A delta is positive along descent: what a
// worker began with, minus what it has made of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "collectives/parameter_server/rule.hpp"
#include "collectives/parameter_server/sharding.hpp"

namespace tutti::engine {

/// How a master steps the centre c by the merged delta D, with the rate g that the pushes give as their factor:
///
///     sgd               c -= g D
///     heavyball         v = m v + D;  c -= g v
///     nesterov          v = m v + D;  c -= g (D + m v)
///     delayed_nesterov  c -= g D / N;  s += D;  every N-th time: v = m v + s / N, c -= g m v, s = 0
///     adam              first and second moments with m and `decay`, corrected for their beginning;
///                       c -= g sqrt(1 - decay^t) / (1 - m^t) first / (sqrt(second) + epsilon)
struct MasterStep {
  enum class Rule : std::uint8_t { sgd, heavyball, nesterov, delayed_nesterov, adam };
  Rule rule = Rule::sgd;
  double momentum = 0;     ///< m
  std::int64_t every = 1;  ///< N
  double decay = 0.999;    ///< of squares
  double epsilon = 1e-8;
};

/// How the deltas of one round become one.
enum class MasterMerge : std::uint8_t {
  mean,
  sum,
  tokens,  ///< weighted by tokens^2 / steps
  radial   ///< tensor by tensor: the weighted mean length in the weighted mean direction, where there is one
};

/// What becomes of a delta that was computed from an older centre than there is: so many updates older.
struct StalenessPolicy {
  enum class What : std::uint8_t { take, reject, damp } what = What::take;
  std::uint64_t most = 0;  ///< reject: above this one; the worker gets the new centre all the same

  /// The factor of a delta; 0: it is left out.
  double factor(std::uint64_t staleness) const noexcept;
};

/// What the workers of a shard had after their last pushes, by rank, in the type of the values. For dumps.
struct WorkerCopies {
  std::map<int, std::vector<std::byte>> values;
  std::vector<std::byte> save() const;
  void load(std::span<const std::byte> saved);
};

struct DeltaRule {
  MasterStep step = {};
  MasterMerge merge = MasterMerge::mean;
  StalenessPolicy staleness = {};
  std::vector<tutti::Range> tensors = {};  ///< in the whole buffer, for radial; empty: it is all one
  int quorum = 1;
  double grace = 0;
};

/// Values: the centre. Data: a delta. Answers with the centre after the round.
ServerRule delta_rule(const DeltaRule& rule);

/// Values: the centre. Data: a worker's x. d = factor (x - c), of all workers of a round from the same c, is added to
/// the centre and answered: a worker that subtracts it leaves the sum of centre and workers as it was. `copies`, if
/// there are any, have what a worker makes of it: x - here d.
ServerRule elastic_rule(int quorum = 1, double grace = 0, std::shared_ptr<WorkerCopies> copies = nullptr,
                        double here = 1);

/// Answers with the worker's copy, or the centre where there is none; data and values stay as they are.
ServerRule own_rule(std::shared_ptr<WorkerCopies> copies);

/// Values: the centre. The first push becomes the centre, later ones change nothing: all workers begin where the first
/// one was.
ServerRule first_rule();

}  // namespace tutti::engine
