#include "engine/checkpoint/state.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/checkpoint/records.hpp"
#include "engine/config/documents.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr DocumentLimits state_limits{.bytes = std::size_t{256} << 20, .nodes = 20'000'000, .depth = 16};

/// Versions of the format: earlier programs put all lists into state.json; now the lists are in a history.
constexpr int listed_version = 1, marked_version = 2;

}  // namespace

RunState RunState::without_past() {
  RunPast past = std::exchange(static_cast<RunPast&>(*this), {});
  RunState found = *this;
  static_cast<RunPast&>(*this) = std::move(past);
  return found;
}

std::string RunState::json() const {
  const bool marked = !history.file.empty();
  Ordered all = {{"version", marked ? marked_version : listed_version},
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
                 {"exchange", exchange}};
  if (marked) {
    all["history"] = {{"file", history.file},     {"bytes", history.bytes},   {"crc32", history.crc32},
                      {"losses", history.losses}, {"epochs", history.epochs}, {"validations", history.validations}};
    return all.dump(1) + "\n";
  }
  Ordered epochs_done = Ordered::array(), validations_done = Ordered::array();
  for (const EpochResult& result : epochs) epochs_done.push_back(record_of(result));
  for (const Validation& found : validations) validations_done.push_back(record_of(found));
  all["epochs"] = std::move(epochs_done);
  all["validations"] = std::move(validations_done);
  all["losses"] = losses;
  return all.dump(1) + "\n";
}

namespace {

/// Throws Error{invalid} if the state contradicts itself. Trainer::Run::read() compares the state with the
/// configuration.
void check(const RunState& state) {
  const HistoryMark& past = state.history;
  if (state.ranks == 0) refuse("'ranks' is 0: expected 1 or more");
  if (state.batch == 0) refuse("'batch' is 0: expected 1 or more");
  if (state.best_validation > past.validations)
    refuse("'best_validation' is " + std::to_string(state.best_validation) + " of " + std::to_string(past.validations) +
           " validations");
  if (past.losses > state.step)
    refuse("there are " + std::to_string(past.losses) + " losses of " + std::to_string(state.step) + " steps");
  if (past.epochs > state.epoch + 1)
    refuse("there are results of " + std::to_string(past.epochs) + " epochs, in epoch " +
           std::to_string(state.epoch + 1));
}

void check_order(const RunState& state) {
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

HistoryMark mark_of(const Json& json) {
  HistoryMark found{.file = json.at("file").get<std::string>(),
                    .bytes = whole(json, "bytes"),
                    .crc32 = static_cast<std::uint32_t>(whole(json, "crc32", UINT32_MAX)),
                    .losses = whole(json, "losses"),
                    .epochs = whole(json, "epochs"),
                    .validations = whole(json, "validations")};
  if (!is_history(found.file)) refuse("'" + found.file + "' is no history of a run");
  if (found.bytes == 0 && found.losses + found.epochs + found.validations > 0)
    refuse("the history has 0 bytes with " + std::to_string(found.losses) + " losses, " + std::to_string(found.epochs) +
           " epochs and " + std::to_string(found.validations) + " validations");
  return found;
}

void read_lists(const Json& all, RunState& state) {
  for (const Json& result : all.at("epochs")) state.epochs.push_back(epoch_of(result));
  for (const Json& found : all.at("validations")) state.validations.push_back(validation_of(found));
  state.losses = numbers(all.at("losses"));
  state.history = {
      .losses = state.losses.size(), .epochs = state.epochs.size(), .validations = state.validations.size()};
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
  if (all.contains("history"))
    state.history = mark_of(all.at("history"));
  else
    read_lists(all, state);
  state.patient_since = all.contains("patient_since") ? whole(all, "patient_since", state.history.validations) : 0;
  check(state);
  check_order(state);
  return state;
}

}  // namespace

RunState RunState::read(const std::filesystem::path& file) {
  return parse(read_text(file, state_limits.bytes), file.string());
}

RunState RunState::parse(const std::string& text, const std::string& name) {
  const Json all = parse_json(text, name, state_limits);
  try {
    if (all.at("version").get<int>() != (all.contains("history") ? marked_version : listed_version))
      refuse(
          "was written by another version of tutti, which this one does not read: resume with that one, or "
          "begin anew in another run=");
    return state_of(all);
  } catch (const nlohmann::json::exception& error) {
    refuse(name + ": is no state of a run (" + error.what() + ")");
  } catch (const Error& error) {
    refuse(name + ": " + error.what());
  }
}

void RunState::read_past(const std::filesystem::path& checkpoints, bool sums) {
  if (history.file.empty()) return;
  static_cast<RunPast&>(*this) = read_history(checkpoints, history, sums);
  try {
    check_order(*this);
  } catch (const Error& error) {
    refuse((checkpoints / history.file).string() + ": " + error.what());
  }
}

}  // namespace tutti::engine
