// Writes the checkpoints of a run, and resumes from them.
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>

#include "engine/checkpoint/shards.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/all_or_none.hpp"
#include "engine/loop/run.hpp"
#include "engine/loop/together.hpp"

namespace tutti::engine {
namespace {

constexpr const char *model_file = "model.safetensors", *average_file = "ema.safetensors", *state_file = RunState::file;

/// The file of rank `rank`. If all ranks have the same state, only that of rank 0 exists.
std::string file_of(const char* what, std::size_t rank) {
  return what + (rank == 0 ? std::string() : "-" + std::to_string(rank)) + ".safetensors";
}

std::vector<nn::NamedTensor> to_named(const Fields& arrays, const at::Device& device) {
  std::vector<nn::NamedTensor> found;
  for (const auto& [name, array] : arrays) found.emplace_back(name, to_tensor(array).to(device));
  return found;
}

/// The tensor, or `bytes` bytes of it from byte `begin` on. The tensor must not change until it is copied.
StagedTensor staged(const std::string& name, const at::Tensor& tensor, std::size_t begin, std::size_t bytes) {
  const at::Tensor flat = tensor.detach().contiguous().view({-1});
  const DType dtype = array_dtype(tensor);
  const std::size_t element = size_of(dtype);
  const bool whole = bytes == static_cast<std::size_t>(flat.nbytes());
  return {name, dtype,
          whole ? ArrayShape(tensor.sizes().begin(), tensor.sizes().end())
                : ArrayShape{static_cast<std::int64_t>(bytes / element)},
          [flat, begin, element](std::size_t at, std::span<std::byte> into) {
            const at::NoGradGuard no_grad;
            const at::Tensor part = flat.narrow(0, static_cast<std::int64_t>((begin + at) / element),
                                                static_cast<std::int64_t>(into.size() / element))
                                        .cpu();
            std::memcpy(into.data(), part.data_ptr(), into.size());
          }};
}

StagedFile staged(const std::string& file, const std::vector<nn::NamedTensor>& tensors) {
  StagedFile found{.name = file};
  for (const auto& [name, tensor] : tensors) found.tensors.push_back(staged(name, tensor, 0, tensor.nbytes()));
  return found;
}

std::size_t bytes_of(const std::vector<nn::NamedTensor>& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

/// The most bytes of copies at a time for a state of `bytes` bytes: a tenth, but at least 64 MiB.
std::size_t most_copied(std::size_t bytes) { return std::max(bytes / 10, std::size_t{64} << 20); }

bool due(std::int64_t every, std::size_t done) { return every > 0 && done % static_cast<std::size_t>(every) == 0; }

}  // namespace

/// Copies on the host, which training does not change.
Fields copies(const std::vector<nn::NamedTensor>& tensors) {
  Fields arrays;
  for (const auto& [name, tensor] : tensors)
    arrays[name] = to_array(tensor.detach().to(at::kCPU, false, true).contiguous());
  return arrays;
}

/// Returns the whole tensors on rank 0, also for a network split over a mesh. Collective; same names on all ranks.
std::vector<nn::NamedTensor> Trainer::Run::wholes(std::vector<nn::NamedTensor> mine) const {
  return network.parts ? network.parts->whole(mine) : std::move(mine);
}

/// Copies parameters and buffers from `arrays`, which hold whole tensors.
void Trainer::Run::load(const Fields& arrays, const std::string& file) {
  const at::NoGradGuard no_grad;
  for (auto [name, tensor] : tensors.all()) {
    const Array* found = arrays.find(name);
    if (!found) refuse(file + " has no tensor '" + name + "': it is of another model");
    const at::Tensor value = network.parts ? network.parts->part_of(name, to_tensor(*found)) : to_tensor(*found);
    if (value.sizes() != tensor.sizes())
      refuse(file + ": '" + name + "' has the shape " + describe(found->shape()) +
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

/// Called after an epoch: saves if a checkpoint is due, if the epoch is the best so far, and if it is the last one.
void Trainer::Run::save_after(std::size_t epoch) {
  const bool ends = !stop_reason.empty() || !has_more();
  if (asked == Wish::checkpoint || due(config.checkpoint.every_steps, state.step) ||
      due(config.checkpoint.every_epochs, epoch + 1) || (keeps_the_best() && best_is_now()) ||
      (config.keeps_the_end() && ends))
    save(epoch, true);
}

/// The tensors that a checkpoint has of this rank, by file, if this rank were rank `rank`. If all ranks have the same
/// state, they return the same files. Buffers may differ even then; the checkpoint gets those of rank 0.
Trainer::Run::KeptTensors Trainer::Run::kept_tensors(std::size_t rank) const {
  if (strategy->traits().alike_when_settled) rank = 0;
  KeptTensors files;
  files.emplace_back(file_of("optimizer", rank), optimizer->state().tensors);
  if (std::vector<nn::NamedTensor> own = strategy->state(); !own.empty())
    files.emplace_back(file_of("strategy", rank), std::move(own));
  if (rank > 0) return files;
  files.emplace_back(model_file, tensors.all());
  if (!averages.empty()) files.emplace_back(average_file, named_averages());
  return files;
}

/// Saves a checkpoint. Rank 0 alone writes a state that all ranks share if it is small (checkpoint.shard_from), or if
/// the network is split over a mesh, so that rank 0 has to gather it. Otherwise every rank writes its own state, or its
/// shard of a shared one. Collective.
void Trainer::Run::save(std::size_t epoch, bool epoch_ended) {
  strategy->settle();
  flush_losses();
  if (config.has_folder()) {
    const KeptTensors files = kept_tensors(static_cast<std::size_t>(world.rank()));
    std::size_t bytes = 0;
    for (const auto& [name, kept] : files) bytes += bytes_of(kept);
    const bool alike = strategy->traits().alike_when_settled;
    const bool large = !network.parts && bytes >= static_cast<std::size_t>(config.checkpoint.shard_from) << 20;
    if (world.size() > 1 ? !alike || large : large)
      save_together(epoch, epoch_ended, alike && world.size() > 1 ? shard_of(files) : staged_files(files));
    else
      save_at_root(epoch, epoch_ended, files);
  }
  if (asked == Wish::checkpoint) {
    asked = Wish::nothing;
    report.line(config.has_folder() ? "a checkpoint after step " + std::to_string(state.step) + " is being written"
                                    : "no checkpoint is written, as there is no folder for it: say run=DIR");
  }
}

void Trainer::Run::save_at_root(std::size_t epoch, bool epoch_ended, const KeptTensors& kept) {
  const bool writes = everyone.rank() == 0;
  CheckpointFiles files;
  for (const auto& [file, mine] : kept) {
    const std::vector<nn::NamedTensor> whole = wholes(mine);
    if (writes) files.tensors[file] = copies(whole);
  }
  const auto start = [&] {
    if (!writes) return;
    files.texts[state_file] = state_text(epoch, epoch_ended);
    files.history = history_of_now();
    files.metadata = checkpoint_metadata();
    saver->start(state.step, std::move(files), best_is_now());
  };
  all_or_none(everyone, start, {.timeout = no_deadline});  // start() waits for the previous checkpoint
}

/// The files of this rank, with all of its tensors.
Trainer::Run::Staged Trainer::Run::staged_files(const KeptTensors& kept) const {
  Staged found;
  std::size_t bytes = 0;
  for (const auto& [file, mine] : kept) {
    found.files.push_back(staged(file, mine));
    bytes += bytes_of(mine);
  }
  found.most = most_copied(bytes);
  return found;
}

/// This rank's shard of the tensors that all ranks have. Collective.
Trainer::Run::Staged Trainer::Run::shard_of(const KeptTensors& kept) const {
  std::vector<nn::NamedTensor> alike;
  for (const auto& [name, buffer] : tensors.buffers) alike.emplace_back(name, buffer.detach().clone());
  nn::synchronize_parameters(alike, world, 0, tensor_device);
  const std::map<std::string, at::Tensor> of_rank_0(alike.begin(), alike.end());
  std::vector<ShardedTensor> all;
  std::vector<at::Tensor> values;
  std::size_t bytes = 0;
  for (const auto& [file, mine] : kept)
    for (const auto& [name, tensor] : mine) {
      const auto buffer = file == model_file || file == average_file ? of_rank_0.find(name) : of_rank_0.end();
      values.push_back(buffer == of_rank_0.end() ? tensor : buffer->second);
      all.push_back({file, {name, array_dtype(tensor), {tensor.sizes().begin(), tensor.sizes().end()}}});
      bytes += tensor.nbytes();
    }
  const auto rank = static_cast<std::size_t>(world.rank()), ranks = static_cast<std::size_t>(world.size());
  StagedFile shard{.name = shard_name(rank, ranks)};
  for (const ShardPiece& piece : pieces_of(all, rank, ranks))
    shard.tensors.push_back(staged(all[piece.tensor].key(), values[piece.tensor], piece.begin, piece.bytes));
  Staged found{.files = {}, .most = most_copied(bytes), .index = shards_text(all, ranks)};
  found.files.push_back(std::move(shard));
  return found;
}

/// Lets every rank write files. Returns when all tensors are copied; other threads continue to write. Collective.
void Trainer::Run::save_together(std::size_t epoch, bool epoch_ended, Staged mine) {
  if (!writers) writers = everyone.dup();
  const auto stage = std::make_shared<Stage>(std::move(mine.files), mine.most);
  all_or_none(everyone, [&] {
    if (!saver)
      saver = std::make_unique<Saver>(
          CheckpointStore(checkpoint_folder(config), static_cast<std::size_t>(config.checkpoint.keep), false));
    saver->wait();
  });
  RankFiles files{.stage = stage, .metadata = checkpoint_metadata()};
  if (everyone.rank() == 0) {
    files.texts[state_file] = state_text(epoch, epoch_ended);
    if (!mine.index.empty()) files.texts[shards_file] = mine.index;
    files.history = history_of_now();
  }
  saver->start([ranks = *writers, files = std::move(files), step = state.step, best = best_is_now()](
                   const CheckpointStore& store) mutable { write_together(ranks, store, step, files, best); });
  // A rank copies only as fast as its disk writes. Fast ranks wait for slow ones here, and not in an exchange.
  all_or_none(everyone, [&] { stage->fill(); }, {.timeout = no_deadline});
}

/// The averages of the parameters, under the parameters' names, and the buffers: the network that is validated.
std::vector<nn::NamedTensor> Trainer::Run::named_averages() const {
  std::vector<nn::NamedTensor> found;
  for (std::size_t i = 0; i < averages.size(); ++i) found.emplace_back(tensors.parameters[i].first, averages[i]);
  found.insert(found.end(), tensors.buffers.begin(), tensors.buffers.end());
  return found;
}

/// The state of now, without its lists and its history.
RunState Trainer::Run::state_at(std::size_t epoch, bool epoch_ended) {
  const Progress progress = loader.progress();
  RunState kept = state.without_past();
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
  return kept;
}

/// Returns the text of state.json; rank 0 only. Call history_of_now() next: it writes the history for this state.
std::string Trainer::Run::state_text(std::size_t epoch, bool epoch_ended) {
  RunState kept = state_at(epoch, epoch_ended);
  fresh_history = history->note(state);
  kept.history = history->mark();
  return kept.json();
}

std::function<void()> Trainer::Run::history_of_now() {
  return [this, lines = std::move(fresh_history), mark = history->mark()] { history->append(lines, mark); };
}

std::map<std::string, std::string> Trainer::Run::checkpoint_metadata() const {
  return {{"format", "pt"}, {"model", config.model.name}, {"step", std::to_string(state.step)}};
}

/// Resumes from the checkpoint that rank 0 chooses; all ranks read its files, and need access to them. Collective.
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

/// Continues after `steps` steps, without a checkpoint of them.
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
  kept.read_past(from.parent_path(), config.checkpoint.verify);
  return take(std::move(kept),
              {.name = from.string(),
               .has = [&](const std::string& file) { return has_arrays(from, file); },
               .arrays = [&](const std::string& file) { return arrays_of(from, file, config.checkpoint.verify); }});
}

/// Takes over a state, with the tensors of this rank; returns the strategy's state.
std::vector<nn::NamedTensor> Trainer::Run::take(RunState kept, const Source& from) {
  const bool is_same_batch = from.any_batch || kept.batch == static_cast<std::size_t>(config.batch.global);
  if (kept.data != loader.progress().data || !is_same_batch)
    refuse(from.name + " is of a run with other data, another seed or another batch.global (" +
           std::to_string(kept.batch) + "): resume with what " + config.run + "/config.yaml says" +
           (loader.progress().data == kept.data + " keyed" ? ", and data.order=list" : ""));
  if (kept.exchange != strategy->traits().name)
    refuse(from.name + " is of a run that exchanged other things (" + kept.exchange + ", not " +
           strategy->traits().name +
           "): resume with the strategy and its options, "
           "deterministic and batch.grains of " +
           config.run + "/config.yaml");
  if (config.optimizer.ema > 0 && from.has(average_file)) {
    load(from.arrays(average_file), from.name + "/" + average_file);
    for (const auto& [name, parameter] : tensors.parameters) averages.push_back(parameter.detach().clone());
  }
  load(from.arrays(model_file), from.name + "/" + model_file);
  const std::size_t own =
      strategy->traits().alike_when_settled ? 0 : static_cast<std::size_t>(world.rank()) % kept.ranks;
  const auto of_rank = [&](const char* what) {
    std::vector<nn::NamedTensor> found = to_named(from.arrays(file_of(what, own)), tensor_device.tensors());
    if (network.parts)
      for (auto& [name, tensor] : found) tensor = network.parts->part_of(name, tensor);
    return found;
  };
  optimizer->load_state({.optimizer = kept.optimizer, .steps = kept.optimizer_steps, .tensors = of_rank("optimizer")});
  std::vector<nn::NamedTensor> remembered;
  if (from.has(file_of("strategy", own))) remembered = of_rank("strategy");
  schedule.load_state(kept.schedule);
  if (kept.set_rate > 0) set_rate = kept.set_rate;
  if (!kept.stopped.empty()) {  // a run that stop.patience ended goes on when resumed, and counts patience anew
    kept.stopped.clear();
    kept.patient_since = kept.validations.size();
  }
  state = std::move(kept);
  if (!state.validations.empty() && reaches_target(state.validations.back())) stop_reason = target_reached();
  return remembered;
}

}  // namespace tutti::engine
