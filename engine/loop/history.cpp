#include "engine/loop/history.hpp"

#include <nlohmann/json.hpp>

namespace tutti::engine {

std::string history_json(const Config& config, const RunState& state, const ExchangeStats& exchanged, double seconds) {
  using Json = nlohmann::ordered_json;
  Json ranks = Json::object();
  for (const EpochResult& epoch : state.epochs)
    for (std::size_t rank = 0; rank < epoch.waited_for.size(); ++rank)
      ranks["0:0:" + std::to_string(rank)]["waited_for"].push_back(epoch.waited_for[rank]);
  Json& lists = ranks["0:0:0"];
  for (const EpochResult& epoch : state.epochs) {
    lists["loss"].push_back(epoch.train_loss);
    lists["val_loss"].push_back(epoch.test_loss);
    for (const auto& [name, value] : epoch.metrics) lists["val_" + name].push_back(value);
    lists["lr"].push_back(epoch.learning_rate);
    lists["samples_per_second"].push_back(epoch.samples_per_second);
    lists["seconds"].push_back(epoch.phases.wall());
  }
  Json arguments = Json::object();
  for (const ConfigInfo& info : config_table()) arguments[std::string(info.key)] = value_text(config, info);
  const Json all = {{"train_time", seconds},
                    {"exchanges", exchanged.exchanges},
                    {"exchanged_bytes", exchanged.bytes},
                    {"history", ranks},
                    {"args", arguments}};
  return all.dump(1) + "\n";
}

}  // namespace tutti::engine
