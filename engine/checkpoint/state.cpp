#include "engine/checkpoint/state.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "engine/config/documents.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr int version = 1;

constexpr std::uint64_t most_counted = std::uint64_t{1} << 53;  // of steps and samples; all are exact as doubles
constexpr DocumentLimits state_limits{.bytes = std::size_t{256} << 20, .nodes = 20'000'000, .depth = 16};

/// A whole number from 0 up. Throws unless it is one, and at most `most`.
std::uint64_t whole(const Json& all, const char* name, std::uint64_t most = most_counted) {
  const Json& value = all.at(name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    refuse("'" + std::string(name) + "' is " + value.dump().substr(0, 40) + ": expected a whole number from 0 to " +
           std::to_string(most));
  return value.get<std::uint64_t>();
}

/// JSON has no infinity and NaN; nlohmann::json writes both as null.
double number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::vector<double> numbers(const Json& values) {
  std::vector<double> found;
  for (const Json& each : values) found.push_back(number(each));
  return found;
}

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

Ordered of(const Validation& found) {
  return {{"step", found.step}, {"epoch", found.epoch}, {"loss", found.loss}, {"metrics", of(found.metrics)}};
}

Validation validation_of(const Json& json) {
  return {.step = whole(json, "step"),
          .epoch = number(json.at("epoch")),
          .loss = number(json.at("loss")),
          .metrics = metrics_of(json.at("metrics"))};
}

Ordered of(const EpochResult& result) {
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
          {"waited_for", waited}};
}

/// Pairs of a rank and seconds. An earlier version had the seconds of all ranks.
std::vector<WaitedFor> named_waits_of(const Json& json) {
  std::vector<WaitedFor> found;
  for (const Json& each : json)
    if (each.is_array())
      found.push_back({each.at(0).get<int>(), number(each.at(1))});
    else
      found.push_back({static_cast<int>(found.size()), number(each)});
  return most_waited_for(std::move(found));
}

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
                     .waited_for = named_waits_of(json.at("waited_for"))};
  const std::vector<double> phases = numbers(json.at("phases"));
  if (phases.size() == 5) result.phases = {phases[0], phases[1], phases[2], phases[3], phases[4]};
  return result;
}

}  // namespace

std::string RunState::json() const {
  Ordered epochs_done = Ordered::array();
  for (const EpochResult& result : epochs) epochs_done.push_back(of(result));
  Ordered validations_done = Ordered::array();
  for (const Validation& found : validations) validations_done.push_back(of(found));
  const Ordered all = {{"version", version},
                       {"manifest", true},
                       {"step", step},
                       {"epoch", epoch},
                       {"sampler", sampler},
                       {"optimizer", {{"name", optimizer}, {"steps", optimizer_steps}}},
                       {"schedule", {{"errors", schedule.errors}, {"factor", schedule.factor}}},
                       {"epoch_loss", epoch_loss},
                       {"epoch_samples", epoch_samples},
                       {"step_samples", step_samples},
                       {"samples", samples},
                       {"further", further},
                       {"given", given},
                       {"best", best},
                       {"best_validation", best_validation},
                       {"best_epoch", best_epoch},
                       {"patient_since", patient_since},
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

namespace {

/// What a state says is checked against itself; the rest is what a run with this configuration says.
void check(const RunState& state) {
  if (state.ranks == 0) refuse("'ranks' is 0: expected 1 or more");
  if (state.batch == 0) refuse("'batch' is 0: expected 1 or more");
  if (state.best_validation > state.validations.size())
    refuse("'best_validation' is " + std::to_string(state.best_validation) + " of " +
           std::to_string(state.validations.size()) + " validations");
  if (state.losses.size() > state.step)
    refuse("there are " + std::to_string(state.losses.size()) + " losses of " + std::to_string(state.step) + " steps");
  if (state.epochs.size() > state.epoch + 1)
    refuse("there are results of " + std::to_string(state.epochs.size()) + " epochs, in epoch " +
           std::to_string(state.epoch + 1));
  const auto in_order = [&](const auto& each, const char* what) {
    std::size_t before = 0;
    for (const auto& one : each) {
      if (one.step < before || one.step > state.step)
        refuse(std::string(what) + " after step " + std::to_string(one.step) + ", which is out of order");
      before = one.step;
    }
  };
  in_order(state.epochs, "there is an epoch that ended");
  in_order(state.validations, "there is a validation");
}

RunState state_of(const Json& all) {
  RunState state;
  state.step = whole(all, "step");
  state.epoch = whole(all, "epoch");
  state.sampler = all.at("sampler").get<std::string>();
  state.optimizer = all.at("optimizer").at("name").get<std::string>();
  state.optimizer_steps = static_cast<std::int64_t>(whole(all.at("optimizer"), "steps"));
  state.schedule = {.errors = numbers(all.at("schedule").at("errors")),
                    .factor = number(all.at("schedule").at("factor"))};
  state.epoch_loss = number(all.at("epoch_loss"));
  state.epoch_samples = number(all.at("epoch_samples"));
  state.samples = whole(all, "samples");
  state.step_samples = all.contains("step_samples") ? whole(all, "step_samples") : whole(all, "batch");
  state.further = all.contains("further") ? whole(all, "further") : 0;
  state.given = all.contains("given") ? whole(all, "given") : 0;
  state.best = number(all.at("best"));
  state.best_validation = whole(all, "best_validation");
  state.best_epoch = whole(all, "best_epoch");
  state.stopped = all.at("stopped").get<std::string>();
  state.set_rate = number(all.at("set_rate"));
  state.data = all.at("data").get<std::string>();
  state.batch = whole(all, "batch");
  state.ranks = whole(all, "ranks");
  state.exchange = all.at("exchange").get<std::string>();
  state.has_manifest = all.value("manifest", false);
  for (const Json& result : all.at("epochs")) state.epochs.push_back(epoch_of(result));
  for (const Json& found : all.at("validations")) state.validations.push_back(validation_of(found));
  state.patient_since = all.contains("patient_since") ? whole(all, "patient_since", state.validations.size()) : 0;
  state.losses = numbers(all.at("losses"));
  check(state);
  return state;
}

}  // namespace

RunState RunState::read(const std::filesystem::path& file) {
  const std::string text = read_text(file, state_limits.bytes);
  const Json all = parse_json(text, file.string(), state_limits);
  try {
    if (all.at("version").get<int>() != version)
      refuse(
          "was written by another version of tutti, which this one does not read: resume with that one, or "
          "begin anew in another run=");
    return state_of(all);
  } catch (const nlohmann::json::exception& error) {
    refuse(file.string() + ": is no state of a run (" + error.what() + ")");
  } catch (const Error& error) {
    refuse(file.string() + ": " + error.what());
  }
}

}  // namespace tutti::engine
