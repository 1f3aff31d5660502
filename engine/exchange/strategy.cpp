#include "engine/exchange/strategy.hpp"

#include "engine/exchange/rules.hpp"
#include "engine/exchange/table.hpp"

namespace tutti::engine {

std::unique_ptr<Strategy> make_strategy(const Config& config, Replica replica) {
  const Options options(choose("sync.rule", exchange_table(), config.sync.rule), config.sync.options);
  if (const std::size_t grains = grains_of(config); grains > 0)
    return exchange::make_grains(grains, std::move(replica));
  if (config.sync.rule == "gradients") return exchange::make_gradients(config, options, std::move(replica));
  if (config.sync.rule == "cdd") return exchange::make_updates(config, options, std::move(replica));
  return exchange::make_parameters(config, options, std::move(replica));
}

}  // namespace tutti::engine
