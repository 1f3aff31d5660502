// The training loop: epochs of steps, validation and reports after them, and the conditions that end training.
#include "engine/trainer.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "engine/data/sampling.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/all_or_none.hpp"
#include "engine/loop/run.hpp"
#include "nn/sync_batch_norm.hpp"

namespace tutti::engine {
namespace {

void set_threads(int threads) {
  at::set_num_threads(threads);
  // A BLAS library with its own thread pool ignores the line above.
  if (void* blas = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(blas)(threads);
}

std::size_t size(std::int64_t number) { return static_cast<std::size_t>(number); }

/// Replaces run=none by an empty text, and batch.per_rank by batch.global.
Config settled(Config config, int ranks) {
  if (config.run == "none") config.run.clear();
  config.resolve_batch(ranks);
  return config;
}

Network placed(Network network) {
  if (!network.tensor_device) network.tensor_device = std::make_shared<nn::TensorDevice>();
  if (network.module) {
    network.module->to(network.tensor_device->tensors());
    return network;
  }
  const NetworkTensors all = tensors_of(network);
  for (const auto* list : {&all.parameters, &all.buffers})
    for (const auto& [name, tensor] : *list)
      if (tensor.device() != network.tensor_device->tensors())
        tensor.set_data(tensor.to(network.tensor_device->tensors()));
  return network;
}

/// The communicator of the ranks that have different samples.
Communicator dealt(const Network& network, const Config& config, const Communicator& all) {
  if (!network.parts && splits_network(config, all.size()))
    refuse("parallel: the network is whole yet, but the configuration wants mesh " +
           Mesh::name_of(mesh_axes(config, all.size())) + ": call engine::spread() first");
  if (!network.parts) return all;
  if (network.parts->mesh().world().size() != all.size())
    refuse("a network over mesh " + network.parts->mesh().name() + " is trained by the " +
           std::to_string(network.parts->mesh().world().size()) +
           " ranks of the mesh: give the trainer the mesh's communicator");
  return network.parts->mesh()["data"];
}

/// With sync.batch_norm, connects the BatchNorms over all ranks; those of a network over a mesh are connected already.
/// Collective.
Network connected(Network network, const Config& config, const Communicator& world) {
  if (!config.sync.batch_norm || network.parts) return network;
  if (!network.module || nn::convert_sync_batch_norm(*network.module, world) == 0)
    refuse("sync.batch_norm=true, but model.name=" + config.model.name +
           " has no BatchNorm that can be exchanged: leave it out");
  return network;
}

std::unique_ptr<Optimizer> optimizer_for(const Config& config, const Task& task, const Network& network,
                                         const NetworkTensors& tensors) {
  if (task.optimizer) return task.optimizer(network);
  return make_optimizer(config.optimizer.name,
                        group_parameters(tensors.parameters, {.bias_lr_factor = config.optimizer.bias_lr_factor,
                                                              .decay_bias = config.optimizer.decay_bias,
                                                              .decay_norm = config.optimizer.decay_norm}),
                        config.optimizer.options);
}

std::unique_ptr<Strategy> strategy_for(const Config& config, const Task& task, Replica replica) {
  return task.strategy ? task.strategy(config, replica) : make_strategy(config, std::move(replica));
}

}  // namespace

Trainer::Run::Run(const Config& given, Communicator communicator, Task task, Hooks user, Trainer& owner)
    : config(settled(given, dealt(task.network, given, communicator).size())),
      everyone(std::move(communicator)),
      world(dealt(task.network, config, everyone)),
      network(connected(placed(std::move(task.network)), config, world)),
      tensor_device(*network.tensor_device),
      tensors(engine::tensors_of(network)),
      buffers(static_cast<nn::BufferPolicy>(
          place_of("sync.buffers", config.sync.buffers, {"broadcast", "average", "local"}))),
      type(config.dtype == "float64" ? at::kDouble : at::kFloat),
      data(std::move(task.data)),
      loss(task.loss ? task.loss : make_loss(config.loss, config.label_smoothing)),
      metrics(!task.metrics.empty() ? task.metrics
              : task.loss           ? metrics_of(loss_info(data.classes > 0 ? "cross_entropy" : "l1"), targets_of(data))
                                    : metrics_of(loss_info(config.loss), targets_of(data))),
      checks_output(!task.loss),
      steps_done(task.done),
      may_begin(task.may_begin),
      further(task.further),
      hooks(std::move(user)),
      trainer(owner),
      grains(grains_of(config)),
      schedule(make_schedule(config)),
      feed(make_feed()),
      loader(data.train, sampler_for(config, world.rank(), world.size(), *data.train), transforms_for(config, data),
             {.depth = size(config.data.prefetch),
              .threads = size(config.data.threads),
              .seed = static_cast<std::uint64_t>(config.seed)},
             feed ? Loader::Sender([this](Batch& batch) { feed->send(batch); }) : Loader::Sender()),
      optimizer(optimizer_for(config, task, network, tensors)),
      strategy(strategy_for(config, task,
                            {.world = world,
                             .tensor_device = network.tensor_device,
                             .parameters = tensors.parameters,
                             .buffers = tensors.buffers,
                             .optimizer = *optimizer})),
      times(PhaseClock(), size(config.report.trace)),
      report(config.report.progress, everyone.rank() != 0),
      losses(world, grains),
      agreement(everyone),
      ends_at(config.max_time > 0 ? deadline_in(Seconds(config.max_time)) : never) {
  tracing = config.report.trace > 0;
  own_steps = size(config.epochs) * loader.steps();
  if (config.steps > 0) own_steps = std::min(own_steps, size(config.steps));
}

/// The most samples that a forward pass of training takes on any rank.
std::size_t Trainer::Run::largest_piece() const {
  const std::size_t cuts = std::max(cuts_of(config, world.size()), size(world.size()));
  return (size(config.batch.global) + cuts - 1) / cuts;
}

std::unique_ptr<Feed> Trainer::Run::make_feed() const {
  if (tensor_device.on_cpu()) return nullptr;
  const std::size_t ranks = size(world.size()), cuts = std::max(cuts_of(config, world.size()), ranks);
  const std::size_t most = (cuts + ranks - 1) / ranks * largest_piece();
  std::vector<std::size_t> largest;
  const SampleId any[] = {0};
  for (const auto& [name, array] : collate(*data.train, any, transforms_for(config, data)))
    largest.push_back(most * array.byte_count());
  return std::make_unique<Feed>(tensor_device.gpu(), tensor_device.where().index, largest, size(config.data.prefetch));
}

/// Reports progress. `samples`: number seen since the epoch was started or resumed.
void Trainer::Run::tell(std::size_t epoch, std::size_t step, double samples) {
  const double seconds = times.clock().total(), left = static_cast<double>(own_steps - own_done());
  report.step({.epoch = epoch + 1,
               .epochs = size(config.epochs),
               .step = step,
               .steps = loader.steps(),
               .loss = last_loss,
               .samples_per_second = samples / seconds,
               .seconds_left = left * seconds / static_cast<double>(step - loader.first_step())});
}

/// Trains one epoch, or the rest of a resumed one. Returns false if training ends with it. Collective.
bool Trainer::Run::train_epoch(std::size_t epoch) {
  set_training(network, true);
  if (state.sampler.empty())
    loader.start_epoch(epoch);
  else
    loader.resume(Progress::parse(state.sampler));
  state.sampler.clear();
  times.start();
  std::size_t samples = 0, last = state.step_samples, steps = loader.first_step();
  validate_if_missed(epoch, steps);
  while (has_more() && stop_reason.empty()) {
    if (may_begin && !may_begin(own_done())) {
      const std::size_t rest = std::min(loader.steps() - steps, own_steps - own_done());
      state.given += rest;
      steps += rest;
      break;
    }
    times.begin_step();
    const std::size_t exchanges = strategy->stats().finished;
    std::optional<Batch> batch = loader.next();
    times.clock().enter(Phase::other);
    if (!batch) break;
    train_step(epoch, *batch, own_done());
    times.end_step();
    samples += batch->global_count;
    state.samples += last = state.step_samples = batch->global_distinct;
    steps = batch->step + 1;
    tell(epoch, steps, static_cast<double>(samples));
    if (may_commit(exchanges)) commit(epoch, false);
    hear(epoch, exchanges, steps == loader.steps());
    if (steps == loader.steps() || is_to_end()) break;
    if (validation_is_due(last)) {
      validate(epoch, steps);
      commit(epoch, false);
      set_training(network, true);
    }
    save_if_due(epoch);
  }
  if (is_to_end()) return interrupt(epoch), false;
  if (further) train_further(epoch, samples);
  times.stop();
  validate_at_end(epoch, steps, last);
  const bool whole = steps == loader.steps();
  if (!whole && config.keeps_the_end()) save(epoch, false);  // so that a resumed run can finish the epoch
  end_epoch(epoch, static_cast<double>(samples));
  if (whole) save_after(epoch);
  const bool goes_on = has_more() && stop_reason.empty();
  if (whole && goes_on) commit(epoch, true);  // the end of the last epoch is made again if a rank dies in it
  return goes_on;
}

void Trainer::Run::end_epoch(std::size_t epoch, double samples) {
  set_training(network, false);
  strategy->settle();
  flush_losses();
  times.synchronize(everyone);
  const auto [phases, waited_for, pairs] = times.gather(everyone);
  const std::optional<Validation> found = validation_of_epoch();
  const Validation held_out = found ? *found : without_numbers();
  EpochResult result{.epoch = epoch + 1,
                     .epochs = size(config.epochs),
                     .step = state.step,
                     .learning_rate = optimizer->learning_rate(),
                     .train_loss = state.epoch_samples > 0 ? state.epoch_loss / state.epoch_samples : NAN,
                     .validated = found.has_value(),
                     .test_loss = held_out.loss,
                     .metrics = held_out.metrics,
                     .samples_per_second = samples / phases.wall(),
                     .phases = phases,
                     .ranks = size(everyone.size()),
                     .waited_for = waited_for};
  state.epoch_loss = state.epoch_samples = 0;
  if (schedule.observes()) schedule.observe(epoch, error_of(state.validations.back()));
  state.epochs.push_back(result);
  report.epoch(result);
  all_written();
  all_or_none(everyone, [&] {
    if (folder) folder->epoch(result, pairs);
  });
  write_trace();
  Moment now = moment(epoch);
  now.result = &state.epochs.back();
  call(hooks.on_end_epoch, now);
}

/// Writes the trace after each epoch until it has enough steps. Collective.
void Trainer::Run::write_trace() {
  if (!tracing) return;
  tracing = times.trace().recording();
  const std::string json = times.trace().gather(everyone, times.offset());
  all_or_none(everyone, [&] {
    if (folder) folder->trace(json);
  });
}

void Trainer::Run::announce() {
  std::int64_t parameters = 0;
  for (const auto& [name, tensor] : tensors.parameters) parameters += tensor.numel();
  if (network.parts) parameters = network.parts->count(tensors.parameters);
  report.line(config.model.name + " with " + std::to_string(parameters) + " parameters of " + config.dtype + " " +
              strategy->traits().about + "; " + std::to_string(everyone.size()) +
              (everyone.size() == 1 ? " rank" : " ranks") +
              (network.parts ? " as mesh " + network.parts->mesh().name() : "") + ", global batch " +
              std::to_string(config.batch.global) + ", optimizer " + std::string(optimizer->name()) + "; this one on " +
              tensor_device.describe() + (network.why_here.empty() ? "" : ", as " + network.why_here));
  if (!network.weights.empty()) report.line(network.weights);
}

/// Begins the run, or goes on from a state: that of `from`, of a checkpoint, or of Task::done. Collective.
void Trainer::Run::begin(const Committed* from) {
  announce();
  if (from != nullptr) return adopt(*from);
  nn::synchronize_parameters(tensors.parameters, world, 0, tensor_device);
  nn::synchronize_parameters(tensors.buffers, world, 0, tensor_device);
  look_together();
  look_at_one_sample();
  if (config.checkpoint.resumes())
    resume();
  else if (steps_done)
    go_on_after(steps_done());
}

TrainResult Trainer::Run::run(const Committed* from) {
  begin(from);
  all_or_none(everyone, [&] {
    if (config.run.empty() || everyone.rank() != 0) return;
    const bool goes_on = from != nullptr || config.checkpoint.resumes();
    folder = std::make_unique<RunFolder>(config, everyone.size(), state, goes_on);
    if (is_elastic())
      folder->ranks(static_cast<double>(own_done()) / static_cast<double>(loader.steps()), state.step, everyone.size());
    saver = std::make_unique<Saver>(CheckpointStore(checkpoint_folder(config), size(config.checkpoint.keep), true));
    history = std::make_unique<History>(checkpoint_folder(config), state.history);
  });
  all_or_none(everyone, [&] {
    if (config.report.loss_file.empty() || everyone.rank() != 0) return;
    loss_file = std::make_unique<LossFile>(config.report.loss_file, state.losses);
  });
  all_or_none(everyone, [&] {
    if (!config.report.samples.empty()) sample_log = std::make_unique<SampleLog>(config.report.samples);
  });
  commit_start(from);
  call(hooks.on_start, moment(state.epoch));
  for (std::size_t epoch = state.epoch; epoch < size(config.epochs) && stop_reason.empty(); ++epoch) {
    if (!has_more() && state.sampler.empty()) break;
    call(hooks.on_start_epoch, moment(epoch));
    if (!stop_reason.empty() || !train_epoch(epoch)) break;
  }
  const bool only_helps = further && state.epochs.empty() && !config.checkpoint.resumes() && stop_reason.empty();
  if (only_helps) train_epoch(size(config.epochs) - 1);  // this trainer has no step of its own
  agreement.end();
  Moment now = moment(state.epochs.size());
  if (!state.epochs.empty()) now.result = &state.epochs.back();
  call(hooks.on_end, now);
  all_or_none(everyone,
              [&] {
                if (saver) saver->wait();  // first, so that its error is not hidden by another one
                if (folder) folder->history(state, strategy->stats());
              },
              {.timeout = no_deadline});
  TrainResult result{.losses = state.losses,
                     .epochs = state.epochs,
                     .validations = state.validations,
                     .stopped = has_more() || interrupted ? stop_reason : std::string(),
                     .interrupted = interrupted,
                     .best_validation = state.best_validation,
                     .best_epoch = state.best_epoch,
                     .reached_target = !state.validations.empty() && reaches_target(state.validations.back()),
                     .exchanged = strategy->stats()};
  try {
    const bool compared = buffers != nn::BufferPolicy::local;
    const std::vector<nn::NamedTensor> kept = compared ? tensors.buffers : std::vector<nn::NamedTensor>();
    if (network.parts)
      network.parts->check_replicas(tensors.parameters, kept);
    else if (strategy->traits().equal_when_settled)
      nn::check_replicas(tensors.parameters, kept, world);
  } catch (const Error& error) {
    throw ReplicaError(error, std::move(result));
  }
  if (!failure.empty()) throw DivergedError(failure, std::move(result));
  return result;
}

namespace {

/// Checks that configuration and task fit together.
void check_task(const Config& config, const Task& task) {
  if (!task.data.train || !task.data.test || task.data.train->size() == 0 || task.data.test->size() == 0)
    refuse("there have to be samples to train on and held-out ones: set both parts of the data");
  if (task.data.inputs.size() != 1)
    refuse("a network takes one input, but samples have " + std::to_string(task.data.inputs.size()));
  if (!task.loss) check_targets(config.loss, targets_of(task.data));
  if (config.precision == "bf16" && config.dtype != "float32")
    refuse("precision=bf16 is for dtype=float32: leave one of them out");
  if (config.precision == "bf16" && task.network.tensor_device && !task.network.tensor_device->on_cpu())
    refuse("precision=bf16 is for the CPU: say device=cpu, or leave it out");
  config.check_run();
  config.check_exchange();
}

}  // namespace

Trainer::Trainer(const Config& config, Communicator world, Task task, Hooks hooks) {
  check_task(config, task);
  set_threads(static_cast<int>(config.threads));
  run_ = std::make_unique<Run>(config, std::move(world), std::move(task), std::move(hooks), *this);
}

Trainer::~Trainer() = default;
TrainResult Trainer::run() { return run_->run(nullptr); }
TrainResult Trainer::run_from(const Committed& state) { return run_->run(&state); }
Committed Trainer::committed() { return run_->committed(); }
Wish Trainer::open_wish() const { return run_->open_wish(); }

Validation Trainer::validate() {
  run_->look_together();
  return run_->evaluate();
}

at::Tensor Trainer::predict() {
  run_->look_together();
  return run_->predict();
}

void Trainer::stop(std::string why) { run_->stop_reason = why.empty() ? "a hook ended it" : std::move(why); }
void Trainer::set_learning_rate(double rate) { run_->set_rate = rate; }
const Network& Trainer::network() const noexcept { return run_->network; }
Optimizer& Trainer::optimizer() noexcept { return *run_->optimizer; }
Strategy& Trainer::strategy() noexcept { return *run_->strategy; }

TrainResult train(const Config& config, Communicator world, Network network, const DataSplit& data, Hooks hooks) {
  return Trainer(config, std::move(world), {.network = std::move(network), .data = data}, std::move(hooks)).run();
}

}  // namespace tutti::engine
