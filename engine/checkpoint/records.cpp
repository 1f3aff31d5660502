#include "engine/checkpoint/records.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/config/options.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

}  // namespace

std::uint64_t whole(const Json& all, const char* name, std::uint64_t most) {
  const Json& value = all.at(name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    refuse("'" + std::string(name) + "' is " + value.dump().substr(0, 40) + ": expected a whole number from 0 to " +
           std::to_string(most));
  return value.get<std::uint64_t>();
}

double number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::vector<double> numbers(const Json& values) {
  std::vector<double> found;
  for (const Json& each : values) found.push_back(number(each));
  return found;
}

namespace {

Ordered of(const Metrics& metrics) {
  Ordered all = Ordered::array();
  for (const auto& [name, value] : metrics) all.push_back({name, value});
  return all;
}

Metrics metrics_of(const Json& json) {
  Metrics found;
  for (const Json& metric : json) found.emplace_back(metric.at(0), number(metric.at(1)));
  return found;
}

}  // namespace

Ordered record_of(const Validation& found) {
  return {{"step", found.step}, {"epoch", found.epoch}, {"loss", found.loss}, {"metrics", of(found.metrics)}};
}

Validation validation_of(const Json& json) {
  return {.step = whole(json, "step"),
          .epoch = number(json.at("epoch")),
          .loss = number(json.at("loss")),
          .metrics = metrics_of(json.at("metrics"))};
}

Ordered record_of(const EpochResult& result) {
  Ordered waited = Ordered::array();
  for (const WaitedFor& each : result.waited_for) waited.push_back({each.rank, each.seconds});
  return {{"epoch", result.epoch},
          {"epochs", result.epochs},
          {"step", result.step},
          {"learning_rate", result.learning_rate},
          {"train_loss", result.train_loss},
          {"validated", result.validated},
          {"test_loss", result.test_loss},
          {"metrics", of(result.metrics)},
          {"samples_per_second", result.samples_per_second},
          {"phases",
           {result.phases.compute, result.phases.communication, result.phases.waiting, result.phases.load,
            result.phases.other}},
          {"ranks", result.ranks},
          {"waited_for", waited}};
}

namespace {

/// Reads pairs of a rank and its seconds. An earlier version wrote only the seconds, for all ranks in their order.
std::vector<WaitedFor> named_waits_of(const Json& json) {
  std::vector<WaitedFor> found;
  for (const Json& each : json)
    if (each.is_array())
      found.push_back({each.at(0).get<int>(), number(each.at(1))});
    else
      found.push_back({static_cast<int>(found.size()), number(each)});
  return most_waited_for(std::move(found));
}

/// The number of ranks. An earlier version did not write it, but its list `waited_for` has one entry for each rank.
std::size_t ranks_of(const Json& json) {
  return json.contains("ranks") ? whole(json, "ranks") : std::max<std::size_t>(json.at("waited_for").size(), 1);
}

}  // namespace

EpochResult epoch_of(const Json& json) {
  EpochResult result{.epoch = whole(json, "epoch"),
                     .epochs = whole(json, "epochs"),
                     .step = whole(json, "step"),
                     .learning_rate = number(json.at("learning_rate")),
                     .train_loss = number(json.at("train_loss")),
                     .validated = json.value("validated", true),
                     .test_loss = number(json.at("test_loss")),
                     .metrics = metrics_of(json.at("metrics")),
                     .samples_per_second = number(json.at("samples_per_second")),
                     .phases = {},
                     .ranks = ranks_of(json),
                     .waited_for = named_waits_of(json.at("waited_for"))};
  const std::vector<double> phases = numbers(json.at("phases"));
  if (phases.size() == 5) result.phases = {phases[0], phases[1], phases[2], phases[3], phases[4]};
  return result;
}

}  // namespace tutti::engine
