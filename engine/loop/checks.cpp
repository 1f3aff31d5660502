// Config::check(): what a configuration needs before training begins. It uses checkpoint/, models/, optimizers/ and
// strategies/, on which config/ does not depend, so it is in loop/.
#include <filesystem>
#include <string>

#include "engine/checkpoint/store.hpp"
#include "engine/config.hpp"
#include "engine/models/split.hpp"
#include "engine/optimizers/losses.hpp"
#include "engine/strategies/axes.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

void Config::check() const {
  if (data.source.empty())
    refuse(
        "no data: say data=DIR, a folder with MNIST's four IDX files (`tutti data optdigits DIR` makes one), or "
        "data=random:1x28x28");
  if (schedule.warmup > static_cast<double>(epochs))
    refuse("schedule.warmup is longer than epochs: make it at most epochs");
  for (const ConfigChoice& choice : config_choices()) {
    const bool file = choice.section == "model" && std::filesystem::path(model.name).has_extension();
    if (file) continue;
    const std::string noun(choice.section);
    const bool named = choice.key == noun + ".name";
    const ChoiceInfo& chosen = choose(named ? noun : choice.key, choice.table(), choice.name(*this));
    for (const auto& [key, value] : choice.options(const_cast<Config&>(*this))) {  // not modified
      try {
        Options(chosen, {{key, value}});
      } catch (const Error& error) {
        const auto source = sources.find(noun + "." + key);
        refuse((source == sources.end() ? noun + "." + key : source->second) + ": " + std::string(choice.key) + "=" +
               choice.name(*this) + ": " + error.what());
      }
    }
  }
  loss_info(loss);
  split_choices(*this);
  check_run();
  check_exchange();
}

void Config::check_run() const {
  const std::string& resume = checkpoint.resume;
  const bool is_switch = resume == "true" || resume == "false" || resume == "on" || resume == "off";
  if (!is_switch && !checkpoint_step(checkpoint.resume))
    refuse("checkpoint.resume=" + checkpoint.resume + ": expected true, false, or a checkpoint, as in step-8");
  if (validate.every_steps > 0 && validate.every_samples > 0)
    refuse("validate.every_steps and validate.every_samples are two ways to say one thing: leave one out");
  if (stop.patience == 0 && (stop.min_delta > 0 || stop.smooth > 1))
    refuse(
        "stop.min_delta and stop.smooth are for stop.patience: say how many validations it waits, or leave them out");
  if (!model.strict && model.from.empty())
    refuse("model.strict=false is for model.from: say which file, or leave it out");
  if (has_folder()) return;
  if (report.trace > 0) refuse("report.trace is kept in the folder of a run: say run=DIR");
  if (checkpoint.every_epochs > 0 || checkpoint.every_steps > 0 || checkpoint.resumes())
    refuse("checkpoints are kept in the folder of a run: say run=DIR");
}

void Config::check_exchange() const {
  const Axes axes = axes_of(*this);
  const bool gradients = axes.what == Axes::What::gradients && axes.how == Axes::How::allreduce;
  if (sync.batch_norm && (!gradients || batch.micro > 0 || deterministic != "off"))
    refuse(
        "sync.batch_norm normalises over all samples of a step at once: it is for strategy=bsp, without batch.micro "
        "and deterministic=membership");
  if (on_nan == "skip" && axes.what == Axes::What::gradients && axes.codec.kind != CodecChoice::Kind::none)
    refuse("on_nan=skip is for gradients that travel as they are, as a codec remembers NaN: leave strategy.codec out");
  if (optimizer.ema < 0 || optimizer.ema >= 1)
    refuse("optimizer.ema is a part of the average that stays in a step: expected 0 or more, and less than 1");
  if (optimizer.ema > 0 && !gradients)
    refuse(
        "optimizer.ema is for strategy=bsp: by other strategies each rank has parameters of its own between exchanges");
  if (deterministic == "off") {
    if (batch.grains > 0) refuse("batch.grains is for deterministic=membership: say so, or leave it out");
    return;
  }
  if (!gradients)
    refuse("deterministic=membership is for strategy=bsp: by other strategies each rank has parameters of its own");
  if (axes.codec.kind != CodecChoice::Kind::none)
    refuse("deterministic=membership adds gradients up exactly: leave strategy.codec out");
  if (data.way != "batch") refuse("deterministic=membership is for data.way=batch: samples belong to no rank");
  if (batch.micro > 0) refuse("deterministic=membership cuts a step into batch.grains: leave batch.micro out");
  if (batch.grains > batch.global || (batch.grains & (batch.grains - 1)) != 0)
    refuse("batch.grains=" + std::to_string(batch.grains) + ": expected a power of two, at most batch.global");
}

void Config::check_split(int ranks) const {
  if (!splits_network(*this, ranks)) return;
  const std::string mesh = Mesh::name_of(mesh_axes(*this, ranks));
  const auto need = [&](bool holds, const std::string& what) {
    if (!holds) refuse("mesh " + mesh + ": a network in parts is trained with " + what);
  };
  const Axes axes = axes_of(*this);
  need(axes.what == Axes::What::gradients && axes.how == Axes::How::allreduce &&
           axes.codec.kind == CodecChoice::Kind::none,
       "strategy=bsp and no strategy.codec: other strategies are for parallel.data alone");
  need(deterministic == "off", "deterministic=off: leave it out");
  for (const char* each : {"lars", "lamb", "muon"})
    need(optimizer.name != each,
         "optimizers that go element by element, and " + optimizer.name + " looks at whole layers: take another");
}

}  // namespace tutti::engine
