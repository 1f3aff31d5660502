// Writes the checkpoints of a run, and resumes from them.
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "engine/checkpoint/gather.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/all_or_none.hpp"
#include "engine/loop/run.hpp"

namespace tutti::engine {
namespace {

constexpr const char *model_file = "model.safetensors", *average_file = "ema.safetensors", *state_file = RunState::file;

/// The file of rank `rank`; of rank 0 alone if all ranks have the same state.
std::string file_of(const char* what, std::size_t rank) {
  return what + (rank == 0 ? std::string() : "-" + std::to_string(rank)) + ".safetensors";
}

std::vector<nn::NamedTensor> to_named(const Fields& arrays, const at::Device& device) {
  std::vector<nn::NamedTensor> found;
  for (const auto& [name, array] : arrays) found.emplace_back(name, to_tensor(array).to(device));
  return found;
}

/// Copies on the host, which training does not change while they are being written.
Fields copies(const std::vector<nn::NamedTensor>& tensors) {
  Fields arrays;
  for (const auto& [name, tensor] : tensors)
    arrays[name] = to_array(tensor.detach().to(at::kCPU, false, true).contiguous());
  return arrays;
}

bool due(std::int64_t every, std::size_t done) { return every > 0 && done % static_cast<std::size_t>(every) == 0; }

}  // namespace

/// The whole tensors on rank 0, also for a network that is split over a mesh. All ranks of the network call it alike.
std::vector<nn::NamedTensor> Trainer::Run::wholes(std::vector<nn::NamedTensor> mine) const {
  return network.parts ? network.parts->whole(mine) : std::move(mine);
}

/// Copies parameters and buffers from `arrays`, which hold whole tensors.
void Trainer::Run::load(const Fields& arrays, const std::filesystem::path& file) {
  const at::NoGradGuard no_grad;
  for (auto [name, tensor] : tensors.all()) {
    const Array* found = arrays.find(name);
    if (!found) refuse(file.string() + " has no tensor '" + name + "': it is of another model");
    const at::Tensor value = network.parts ? network.parts->part_of(name, to_tensor(*found)) : to_tensor(*found);
    if (value.sizes() != tensor.sizes())
      refuse(file.string() + ": '" + name + "' has the shape " + describe(found->shape()) +
             ", which the model's has not: it is of another model");
    tensor.copy_(value);
  }
}

bool Trainer::Run::keeps_checkpoints() const {
  return config.checkpoint.every_epochs > 0 || config.checkpoint.every_steps > 0;
}

bool Trainer::Run::keeps_the_best() const {
  return keeps_checkpoints() || (config.stop.patience > 0 && config.has_folder());
}

/// Called within an epoch: saves if a checkpoint is due.
void Trainer::Run::save_if_due(std::size_t epoch) {
  if (asked == Wish::checkpoint || due(config.checkpoint.every_steps, state.step) ||
      (keeps_the_best() && best_is_now()))
    save(epoch, false);
}

/// Called after an epoch: saves if a checkpoint is due, for the best epoch so far, and for the last one.
void Trainer::Run::save_after(std::size_t epoch) {
  const bool ends = !stop_reason.empty() || !has_more();
  if (asked == Wish::checkpoint || due(config.checkpoint.every_steps, state.step) ||
      due(config.checkpoint.every_epochs, epoch + 1) || (keeps_the_best() && best_is_now()) ||
      (config.keeps_the_end() && ends))
    save(epoch, true);
}

void Trainer::Run::save(std::size_t epoch, bool epoch_ended) {
  strategy->settle();
  flush_losses();
  CheckpointFiles files;
  const auto keep_whole = [&](const std::string& file, const std::vector<nn::NamedTensor>& mine) {
    if (!config.has_folder()) return;
    const std::vector<nn::NamedTensor> whole = wholes(mine);
    if (saver) files.tensors[file] = copies(whole);
  };
  const auto keep = [&](const char* what, const std::vector<nn::NamedTensor>& mine) {
    if (strategy->traits().alike_when_settled) return keep_whole(file_of(what, 0), mine);
    const std::vector<Fields> all = gather(world, copies(mine));
    for (std::size_t rank = 0; rank < all.size(); ++rank) files.tensors[file_of(what, rank)] = all[rank];
  };
  keep("optimizer", optimizer->state().tensors);
  if (const std::vector<nn::NamedTensor> own = strategy->state(); !own.empty()) keep("strategy", own);
  keep_whole(model_file, tensors.all());
  if (!averages.empty()) keep_whole(average_file, named_averages());
  all_or_none(everyone, [&] {
    if (saver) write(epoch, epoch_ended, std::move(files));
  });
  if (asked == Wish::checkpoint) {
    asked = Wish::nothing;
    report.line(config.has_folder() ? "a checkpoint after step " + std::to_string(state.step) + " is being written"
                                    : "no checkpoint is written, as there is no folder for it: say run=DIR");
  }
}

/// The averages under the parameters' names, with the buffers: the network that is judged.
std::vector<nn::NamedTensor> Trainer::Run::named_averages() const {
  std::vector<nn::NamedTensor> found;
  for (std::size_t i = 0; i < averages.size(); ++i) found.emplace_back(tensors.parameters[i].first, averages[i]);
  found.insert(found.end(), tensors.buffers.begin(), tensors.buffers.end());
  return found;
}

/// Called on rank 0 only.
void Trainer::Run::write(std::size_t epoch, bool epoch_ended, CheckpointFiles files) {
  const Progress progress = loader.progress();
  RunState kept = state;
  kept.epoch = epoch_ended ? epoch + 1 : epoch;
  kept.sampler = epoch_ended ? std::string() : progress.text();
  kept.data = progress.data;
  kept.batch = static_cast<std::size_t>(config.batch.global);
  kept.optimizer = optimizer->name();
  kept.optimizer_steps = optimizer->steps();
  kept.exchange = strategy->traits().name;
  kept.schedule = schedule.state();
  kept.set_rate = set_rate.value_or(0);
  kept.ranks = static_cast<std::size_t>(world.size());
  files.texts[state_file] = kept.json();
  files.metadata = {{"format", "pt"}, {"model", config.model.name}, {"step", std::to_string(state.step)}};
  saver->start(state.step, std::move(files), best_is_now());
}

/// All ranks have to see the folder. Rank 0 chooses.
void Trainer::Run::resume() {
  std::int64_t step = -1;
  all_or_none(everyone, [&] {
    if (everyone.rank() != 0) return;
    const CheckpointStore store(checkpoint_folder(config), static_cast<std::size_t>(config.checkpoint.keep), false);
    const ChosenCheckpoint chosen = choose_checkpoint(store, config.checkpoint.resume, config.checkpoint.verify);
    for (const std::string& why : chosen.skipped) report.line("skipping a damaged checkpoint: " + why);
    if (chosen.step) step = static_cast<std::int64_t>(*chosen.step);
  });
  step = everyone.broadcast(step, 0).wait();
  if (step < 0) {
    report.line("nothing to resume in run=" + config.run + ": beginning");
    return;
  }
  const std::filesystem::path from = checkpoint_folder(config) / ("step-" + std::to_string(step));
  std::vector<nn::NamedTensor> remembered;
  all_or_none(everyone, [&] { remembered = read(from); });
  strategy->load_state(remembered);
  report.line("resuming " + from.string() + ", after step " + std::to_string(step) + " in epoch " +
              std::to_string(state.epoch + 1));
}

/// Continues after `steps` steps, of which nothing else is known.
void Trainer::Run::go_on_after(std::size_t steps) {
  Progress progress = loader.progress();
  const std::size_t in_epoch = steps % loader.steps();
  state.step = steps;
  state.epoch = progress.epoch = steps / loader.steps();
  if (in_epoch == 0) return;
  progress.parts = {{world.size(), static_cast<std::size_t>(config.batch.global), in_epoch}};
  state.sampler = progress.text();
}

/// Reads this rank's part of a checkpoint; returns the strategy's state.
std::vector<nn::NamedTensor> Trainer::Run::read(const std::filesystem::path& from) {
  RunState kept = RunState::read(from / state_file);
  if (kept.data != loader.progress().data || kept.batch != static_cast<std::size_t>(config.batch.global))
    refuse(from.string() + " is of a run with other data, another seed or another batch.global (" +
           std::to_string(kept.batch) + "): resume with what " + config.run + "/config.yaml says");
  if (kept.exchange != strategy->traits().name)
    refuse(from.string() + " is of a run that exchanged other things (" + kept.exchange + ", not " +
           strategy->traits().name +
           "): resume with the strategy and its options, "
           "deterministic and batch.grains of " +
           config.run + "/config.yaml");
  if (config.optimizer.ema > 0 && std::filesystem::exists(from / average_file)) {
    load(read_arrays(from / average_file, config.checkpoint.verify), from / average_file);
    for (const auto& [name, parameter] : tensors.parameters) averages.push_back(parameter.detach().clone());
  }
  load(read_arrays(from / model_file, config.checkpoint.verify), from / model_file);
  const std::size_t own =
      strategy->traits().alike_when_settled ? 0 : static_cast<std::size_t>(world.rank()) % kept.ranks;
  const auto of_rank = [&](const char* what) {
    std::vector<nn::NamedTensor> found =
        to_named(read_arrays(from / file_of(what, own), config.checkpoint.verify), tensor_device.tensors());
    if (network.parts)
      for (auto& [name, tensor] : found) tensor = network.parts->part_of(name, tensor);
    return found;
  };
  optimizer->load_state({.optimizer = kept.optimizer, .steps = kept.optimizer_steps, .tensors = of_rank("optimizer")});
  std::vector<nn::NamedTensor> remembered;
  if (std::filesystem::exists(from / file_of("strategy", own))) remembered = of_rank("strategy");
  schedule.load_state(kept.schedule);
  if (kept.set_rate > 0) set_rate = kept.set_rate;
  if (!kept.stopped.empty()) {  // who resumes a run that patience ended wants it to go on, and to be patient anew
    kept.stopped.clear();
    kept.patient_since = kept.validations.size();
  }
  state = std::move(kept);
  if (!state.validations.empty() && reaches_target(state.validations.back())) stop_reason = target_reached();
  return remembered;
}

}  // namespace tutti::engine
