#include "engine/checkpoint/state.hpp"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int version = 1;

/// JSON has no infinity and NaN; nlohmann::json writes both as null.
double number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::vector<double> numbers(const Json& values) {
  std::vector<double> found;
  for (const Json& each : values) found.push_back(number(each));
  return found;
}

Json of(const Metrics& metrics) {
  Json all = Json::array();
  for (const auto& [name, value] : metrics) all.push_back({name, value});
  return all;
}

Metrics metrics_of(const Json& json) {
  Metrics found;
  for (const Json& metric : json) found.emplace_back(metric.at(0), number(metric.at(1)));
  return found;
}

Json of(const Validation& found) {
  return {{"step", found.step}, {"epoch", found.epoch}, {"loss", found.loss}, {"metrics", of(found.metrics)}};
}

Validation validation_of(const Json& json) {
  return {.step = json.at("step").get<std::size_t>(),
          .epoch = number(json.at("epoch")),
          .loss = number(json.at("loss")),
          .metrics = metrics_of(json.at("metrics"))};
}

Json of(const EpochResult& result) {
  return {{"epoch", result.epoch},
          {"epochs", result.epochs},
          {"step", result.step},
          {"learning_rate", result.learning_rate},
          {"train_loss", result.train_loss},
          {"test_loss", result.test_loss},
          {"metrics", of(result.metrics)},
          {"samples_per_second", result.samples_per_second},
          {"phases",
           {result.phases.compute, result.phases.communication, result.phases.waiting, result.phases.load,
            result.phases.other}},
          {"waited_for", result.waited_for}};
}

EpochResult epoch_of(const Json& json) {
  EpochResult result{.epoch = json.at("epoch").get<std::size_t>(),
                     .epochs = json.at("epochs").get<std::size_t>(),
                     .step = json.at("step").get<std::size_t>(),
                     .learning_rate = number(json.at("learning_rate")),
                     .train_loss = number(json.at("train_loss")),
                     .test_loss = number(json.at("test_loss")),
                     .metrics = metrics_of(json.at("metrics")),
                     .samples_per_second = number(json.at("samples_per_second")),
                     .phases = {},
                     .waited_for = numbers(json.at("waited_for"))};
  const std::vector<double> phases = numbers(json.at("phases"));
  if (phases.size() == 5) result.phases = {phases[0], phases[1], phases[2], phases[3], phases[4]};
  return result;
}

}  // namespace

std::string RunState::json() const {
  Json epochs_done = Json::array();
  for (const EpochResult& result : epochs) epochs_done.push_back(of(result));
  Json validations_done = Json::array();
  for (const Validation& found : validations) validations_done.push_back(of(found));
  const Json all = {{"version", version},
                    {"step", step},
                    {"epoch", epoch},
                    {"sampler", sampler},
                    {"optimizer", {{"name", optimizer}, {"steps", optimizer_steps}}},
                    {"schedule", {{"errors", schedule.errors}, {"factor", schedule.factor}}},
                    {"epoch_loss", epoch_loss},
                    {"epoch_samples", epoch_samples},
                    {"samples", samples},
                    {"further", further},
                    {"given", given},
                    {"best", best},
                    {"best_validation", best_validation},
                    {"best_epoch", best_epoch},
                    {"stopped", stopped},
                    {"set_rate", set_rate},
                    {"data", data},
                    {"batch", batch},
                    {"ranks", ranks},
                    {"exchange", exchange},
                    {"epochs", epochs_done},
                    {"validations", validations_done},
                    {"losses", losses}};
  return all.dump(1) + "\n";
}

RunState RunState::read(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    throw Error(Code::invalid,
                file.string() + ": cannot be read: resume an earlier checkpoint, or begin anew in another run=");
  try {
    const Json all = Json::parse(in);
    if (all.at("version").get<int>() != version)
      throw Error(Code::invalid, file.string() +
                                     ": was written by another version of tutti, which this one does not read: resume "
                                     "with that one, or begin anew in another run=");
    RunState state;
    state.step = all.at("step").get<std::size_t>();
    state.epoch = all.at("epoch").get<std::size_t>();
    state.sampler = all.at("sampler").get<std::string>();
    state.optimizer = all.at("optimizer").at("name").get<std::string>();
    state.optimizer_steps = all.at("optimizer").at("steps").get<std::int64_t>();
    state.schedule = {.errors = numbers(all.at("schedule").at("errors")),
                      .factor = number(all.at("schedule").at("factor"))};
    state.epoch_loss = number(all.at("epoch_loss"));
    state.epoch_samples = number(all.at("epoch_samples"));
    state.samples = all.at("samples").get<std::size_t>();
    state.further = all.value("further", std::size_t{0});
    state.given = all.value("given", std::size_t{0});
    state.best = number(all.at("best"));
    state.best_validation = all.at("best_validation").get<std::size_t>();
    state.best_epoch = all.at("best_epoch").get<std::size_t>();
    state.stopped = all.at("stopped").get<std::string>();
    state.set_rate = number(all.at("set_rate"));
    state.data = all.at("data").get<std::string>();
    state.batch = all.at("batch").get<std::size_t>();
    state.ranks = all.at("ranks").get<std::size_t>();
    state.exchange = all.at("exchange").get<std::string>();
    for (const Json& result : all.at("epochs")) state.epochs.push_back(epoch_of(result));
    for (const Json& found : all.at("validations")) state.validations.push_back(validation_of(found));
    state.losses = numbers(all.at("losses"));
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Code::invalid,
                file.string() + ": is no state of a run (" + error.what() + "): begin anew in another run=");
  }
}

}  // namespace tutti::engine
