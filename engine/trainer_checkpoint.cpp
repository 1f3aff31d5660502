// What a run keeps, and how it goes on from it.
#include <ATen/Functions.h>

#include "engine/data/tensors.hpp"
#include "engine/trainer_run.hpp"
#include "nn/tensor.hpp"

namespace tutti::engine {
namespace {

constexpr const char *model_file = "model.safetensors", *optimizer_file = "optimizer.safetensors",
                     *state_file = "state.json";

/// Copies on the host, which training does not change while they are written.
Fields copies(const std::vector<nn::NamedTensor>& tensors) {
  Fields arrays;
  for (const auto& [name, tensor] : tensors)
    arrays[name] = to_array(tensor.detach().to(at::kCPU, false, true).contiguous());
  return arrays;
}

void load(const Fields& arrays, const std::vector<nn::NamedTensor>& into, const std::filesystem::path& file) {
  const at::NoGradGuard no_grad;
  for (auto [name, tensor] : into) {
    const Array* found = arrays.find(name);
    if (!found) throw Error(Code::invalid, file.string() + " has no tensor '" + name + "': it is of another model");
    const at::Tensor value = to_tensor(*found);
    if (value.sizes() != tensor.sizes())
      throw Error(Code::invalid, file.string() + ": '" + name + "' has the shape " + describe(found->shape()) +
                                     ", which the model's has not: it is of another model");
    tensor.copy_(value);
  }
}

std::vector<nn::NamedTensor> all_of(const NetworkTensors& tensors) {
  std::vector<nn::NamedTensor> all = tensors.parameters;
  all.insert(all.end(), tensors.buffers.begin(), tensors.buffers.end());
  return all;
}

}  // namespace

void Trainer::Run::save_if_due(std::size_t epoch, bool epoch_ended) {
  if (config.run.empty()) return;
  const auto due = [](std::int64_t every, std::size_t done) {
    return every > 0 && done % static_cast<std::size_t>(every) == 0;
  };
  const bool step_due = !epoch_ended && due(config.checkpoint.every_steps, state.step);
  const bool epoch_due = epoch_ended && (due(config.checkpoint.every_epochs, epoch + 1) || !stop_reason.empty() ||
                                         state.step >= total_steps || (best_now && config.checkpoint.every_epochs > 0));
  if (step_due || (epoch_due && (config.checkpoint.every_epochs > 0 || config.checkpoint.every_steps > 0)))
    save(epoch, epoch_ended);
}

void Trainer::Run::save(std::size_t epoch, bool epoch_ended) {
  flush_losses();
  const Progress progress = loader.progress();
  if (!saver) return;
  const OptimizerState remembered = optimizer->state();
  RunState kept = state;
  kept.epoch = epoch_ended ? epoch + 1 : epoch;
  kept.sampler = epoch_ended ? std::string() : progress.text();
  kept.optimizer = remembered.optimizer;
  kept.optimizer_steps = remembered.steps;
  kept.schedule = schedule.state();
  kept.ranks = static_cast<std::size_t>(world.size());
  CheckpointFiles files;
  files.tensors[model_file] = copies(all_of(tensors));
  files.tensors[optimizer_file] = copies(remembered.tensors);
  files.texts[state_file] = kept.json();
  files.metadata = {{"format", "pt"}, {"model", config.model.name}, {"step", std::to_string(state.step)}};
  saver->start(state.step, std::move(files), epoch_ended && best_now);
}

void Trainer::Run::resume() {
  const CheckpointStore store(checkpoint_folder(config), static_cast<std::size_t>(config.checkpoint.keep), false);
  std::int64_t step = -1;  // which rank 0 decides
  if (world.rank() == 0)
    if (const auto last = store.last()) step = static_cast<std::int64_t>(RunState::read(*last / state_file).step);
  step = world.broadcast(step, 0).wait();
  if (step < 0) {
    report.line("nothing to resume in run=" + config.run + ": beginning");
    return;
  }
  const std::filesystem::path from = checkpoint_folder(config) / ("step-" + std::to_string(step));
  state = RunState::read(from / state_file);
  load(read_arrays(from / model_file), all_of(tensors), from / model_file);
  OptimizerState remembered{.optimizer = state.optimizer, .steps = state.optimizer_steps, .tensors = {}};
  for (const auto& [name, array] : read_arrays(from / optimizer_file))
    remembered.tensors.emplace_back(name, to_tensor(array).to(site.tensors()));
  optimizer->load_state(remembered);
  schedule.load_state(state.schedule);
  report.line("resuming " + from.string() + ", after step " + std::to_string(step) + " in epoch " +
              std::to_string(state.epoch + 1));
}

}  // namespace tutti::engine
