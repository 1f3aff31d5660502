#include "engine/strategies/strategy.hpp"

#include "engine/strategies/makers.hpp"

namespace tutti::engine {

void Strategy::set(std::string_view key, double) {
  refuse("strategy " + traits_.name + " has no number '" + std::string(key) + "' to set");
}

std::unique_ptr<Strategy> make_strategy(const Config& config, Replica replica) {
  const Axes axes = axes_of(config);
  if (const std::size_t grains = grains_of(config); grains > 0)
    return exchange::make_grains(grains, std::move(replica));
  if (axes.how == Axes::How::server)
    throw Error(Code::unsupported, "strategy.how=server: train by train_by_masters(), as `tutti train` does");
  if (axes.what == Axes::What::gradients) return exchange::make_gradients(config, axes, std::move(replica));
  if (axes.merge == Axes::Merge::gossip) return exchange::make_gossip(config, axes, std::move(replica));
  if (axes.how == Axes::How::pairs) return exchange::make_pairs(config, axes, std::move(replica));
  if (axes.dense_steps > 0) return exchange::make_dense_first(config, axes, std::move(replica));
  return exchange::make_deltas(config, axes, std::move(replica));
}

}  // namespace tutti::engine
