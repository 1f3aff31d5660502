#include "engine/server/make_server.hpp"

#include <algorithm>
#include <utility>

#include "engine/server/master_optimizer.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/makers.hpp"

namespace tutti::engine {
namespace {

StalenessPolicy staleness_of(const Axes& axes) {
  using What = StalenessPolicy::What;
  const What what = axes.server.stale == "reject" ? What::reject
                    : axes.server.stale == "damp" ? What::damp
                                                  : What::take;
  return {what, static_cast<std::uint64_t>(axes.server.most_stale)};
}

constexpr int all_there_are = 1 << 30;  // a quorum above the number of workers means all workers

int quorum_of(const Axes& axes, int workers) {
  if (axes.members == Axes::Members::any) return 1;
  if (axes.members == Axes::Members::all) return axes.server.joins > 0 ? all_there_are : workers;
  return axes.quorum == 0 ? std::max(workers - 1, 1) : static_cast<int>(std::min<std::int64_t>(axes.quorum, workers));
}

/// Returns the rule of the outer step. Its rate is not set here: each push carries it.
OuterRule outer_of(const Axes& axes) {
  return {.rule = axes.outer == Axes::Outer::none ? Axes::Outer::sgd : axes.outer,
          .momentum = axes.outer_momentum,
          .every = axes.outer_every};
}

WorkerNumbers numbers_of(const Axes& axes, int workers) {
  WorkerNumbers numbers;
  numbers.every = axes.every;
  numbers.prefetch = axes.server.prefetch;
  numbers.delay = axes.delay;
  numbers.alpha = axes.alpha;
  numbers.outer_lr = axes.outer == Axes::Outer::none ? 1 : axes.outer_lr;
  numbers.elastic = axes.server.elastic_force > 0 ? axes.server.elastic_force / workers : axes.elastic;
  numbers.elastic_here = axes.server.elastic_here >= 0 ? axes.server.elastic_here : numbers.elastic;
  numbers.gem_lr = axes.outer_lr;
  numbers.gem_momentum = axes.outer_momentum;
  numbers.gem_kappa = axes.server.kappa;
  if (axes.what == Axes::What::gradients) numbers.kind = WorkerNumbers::Kind::gradients;
  if (axes.what == Axes::What::parameters) numbers.kind = WorkerNumbers::Kind::elastic;
  if (axes.what == Axes::What::deltas)
    numbers.kind = axes.outer == Axes::Outer::gem ? WorkerNumbers::Kind::gem : WorkerNumbers::Kind::deltas;
  return numbers;
}

/// Returns the rule of a worker's exchange. `copies` is null unless checkpoints must contain the workers' copies.
ServerRule step_rule(const Config& config, const Axes& axes, const std::vector<nn::NamedTensor>& tensors, int workers,
                     const std::shared_ptr<WorkerCopies>& copies) {
  const int quorum = quorum_of(axes, workers);
  const WorkerNumbers numbers = numbers_of(axes, workers);
  if (numbers.kind == WorkerNumbers::Kind::gradients)
    return gradient_rule(config, tensors, staleness_of(axes), quorum, axes.server.grace);
  if (numbers.kind == WorkerNumbers::Kind::gem ||
      (numbers.kind == WorkerNumbers::Kind::elastic && numbers.prefetch > 0))
    return standard_rules().at("add");
  if (numbers.kind == WorkerNumbers::Kind::elastic)
    return elastic_rule(quorum, axes.server.grace, copies, numbers.elastic_here / numbers.elastic);
  std::vector<tutti::Range> ranges;
  for (const auto& [name, tensor] : tensors)
    ranges.push_back({ranges.empty() ? 0 : ranges.back().end(), static_cast<std::size_t>(tensor.numel())});
  return delta_rule({outer_of(axes), axes.merge, staleness_of(axes), ranges, quorum, axes.server.grace});
}

}  // namespace

ServerRules master_rules(const Config& config, std::vector<nn::NamedTensor> parameters,
                         const std::shared_ptr<Ledger>& ledger, const WorkerRanks& ranks) {
  const Axes axes = axes_of(config);
  ServerRules rules{{first_rule_name(), first_rule()}, {deal_rule_name(), deal_rule(ledger, ranks)}};
  std::size_t index = 0;
  const bool keeps = config.checkpoint.every_epochs > 0 || config.checkpoint.every_steps > 0 ||
                     (config.checkpoint.at_end && config.has_folder());
  for (const auto& tensors : exchange::by_type(exchange::trained_of(std::move(parameters)))) {
    const auto copies = keeps ? std::make_shared<WorkerCopies>() : nullptr;
    rules.emplace(step_rule_name(index),
                  step_rule(config, axes, tensors, static_cast<int>(ranks.ranks.size()), copies));
    rules.emplace(own_rule_name(index++), own_rule(copies ? copies : std::make_shared<WorkerCopies>()));
  }
  ServerRule& counted = rules.at(step_rule_name(0));  // a worker pushes every element type, so one rule counts
  counted = with_ledger(std::move(counted), ledger, ranks);
  return rules;
}

SubmasterNumbers submaster_numbers(const Config& config, int submasters) {
  const Axes axes = axes_of(config);
  const WorkerNumbers numbers = numbers_of(axes, submasters);
  const bool is_mean = axes.members != Axes::Members::any && axes.merge != Axes::Merge::sum;
  return {.kind = numbers.kind == WorkerNumbers::Kind::elastic ? SubmasterNumbers::Kind::elastic
                                                               : SubmasterNumbers::Kind::deltas,
          .rate = is_mean ? 1.0 / submasters : 1.0,
          .elastic = numbers.elastic,
          .elastic_here = numbers.elastic_here,
          .every = static_cast<std::uint64_t>(axes.server.submaster_every)};
}

std::unique_ptr<ServerWorker> make_worker(const Config& config, int workers, const Replica& replica,
                                          const WorkerPlace& place) {
  const Axes axes = axes_of(config);
  Axes inner;
  inner.preset = "bsp";
  WorkerPlace met = place;
  met.meets = quorum_of(axes, workers) > 1 ? workers : 0;
  met.resumes = config.checkpoint.resumes();
  return ServerWorker::make(numbers_of(axes, workers),
                            {.name = axes.name(),
                             .about = "by masters, with " + std::to_string(workers) + " workers" +
                                      (place.keys.empty() ? "" : " in its group"),
                             .alike_when_settled = false},
                            replica, met, exchange::make_gradients(config, inner, replica));
}

}  // namespace tutti::engine
