// The loop: sample, forward, backward (with the gradients leaving), update.
#include "engine/trainer.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/data/loader.hpp"
#include "engine/data/tensors.hpp"
#include "engine/device.hpp"
#include "engine/feed.hpp"
#include "nn/gradient_sync.hpp"
#include "nn/module.hpp"
#include "nn/site.hpp"
#include "nn/synchronize.hpp"

namespace tutti::engine {
namespace {

using Clock = std::chrono::steady_clock;
namespace functional = torch::nn::functional;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void set_threads(int threads) {
  at::set_num_threads(threads);
  // A BLAS with threads of its own does not hear of it.
  if (void* blas = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) reinterpret_cast<void (*)(int)>(blas)(threads);
}

nn::BufferPolicy buffer_policy(const std::string& name) {
  if (name == "broadcast") return nn::BufferPolicy::broadcast;
  if (name == "average") return nn::BufferPolicy::average;
  if (name == "local") return nn::BufferPolicy::local;
  throw Error(Code::invalid, "buffers=" + name + ": expected broadcast or average or local");
}

class Run {
 public:
  Run(const Config& config, Communicator world, Network network, const DataSplit& data, const Hooks& hooks);
  TrainResult train();

 private:
  bool train_epoch(std::size_t epoch);
  void train_step(std::size_t epoch, Batch& batch);
  void end_epoch(std::size_t epoch, double seconds);
  void evaluate(EpochResult& result);
  void announce();
  std::unique_ptr<Feed> make_feed() const;
  std::pair<at::Tensor, at::Tensor> tensors_of(const Batch& batch) const;
  void call(const Hooks::Hook& hook, const Moment& moment) const {
    if (hook) hook(moment);
  }

  const Config& config_;
  Communicator world_;
  Network network_;
  nn::Site& site_;
  const nn::BufferPolicy buffers_;
  const at::ScalarType type_;
  const DataSplit& data_;
  const Hooks& hooks_;
  std::unique_ptr<Feed> feed_;  // of a device
  Loader loader_;
  nn::GradientSync sync_;
  torch::optim::SGD optimizer_;
  Report report_;
  std::size_t total_steps_ = 0;
  std::size_t step_ = 0;
  std::size_t epoch_samples_ = 0;
  double waited_before_ = 0;
  std::vector<double> sums_;    // this rank's summed loss, of each step of the epoch
  std::vector<double> counts_;  // all ranks' samples, of each step of the epoch
  TrainResult result_;
};

Sampler sampler_for(const Config& config, const Communicator& world, std::size_t samples) {
  return Sampler({.samples = samples,
                  .batch = static_cast<std::size_t>(config.batch.global),
                  .rank = world.rank(),
                  .size = world.size(),
                  .seed = static_cast<std::uint64_t>(config.seed)});
}

std::vector<Transform> transforms_for(const Config& config, const DataSplit& data) {
  std::vector<Transform> found = data.preparation();
  if (config.data.shift > 0) found.insert(found.begin(), shift(data.inputs[0], static_cast<int>(config.data.shift)));
  return found;
}

Run::Run(const Config& config, Communicator world, Network network, const DataSplit& data, const Hooks& hooks)
    : config_(config),
      world_(std::move(world)),
      network_(std::move(network)),
      site_(*network_.site),
      buffers_(buffer_policy(config.sync.buffers)),
      type_(config.dtype == "float64" ? at::kDouble : at::kFloat),
      data_(data),
      hooks_(hooks),
      feed_(make_feed()),
      loader_(
          data.train, sampler_for(config, world_, data.train->size()), transforms_for(config, data),
          {.depth = static_cast<std::size_t>(config.data.prefetch), .seed = static_cast<std::uint64_t>(config.seed)},
          feed_ ? Loader::Sender([this](Batch& batch) { feed_->send(batch); }) : Loader::Sender()),
      sync_(*network_.module, world_,
            {.first_bytes = static_cast<std::size_t>(config.sync.first_bucket_bytes),
             .cap_bytes = static_cast<std::size_t>(config.sync.bucket_bytes),
             .site = network_.site}),
      optimizer_(nn::parameters(*network_.module), torch::optim::SGDOptions(config.optimizer.lr)
                                                       .momentum(config.optimizer.momentum)
                                                       .weight_decay(config.optimizer.weight_decay)),
      report_(config.report.progress, world_.rank() != 0) {
  total_steps_ = static_cast<std::size_t>(config.epochs) * loader_.steps();
  if (config.steps > 0) total_steps_ = std::min(total_steps_, static_cast<std::size_t>(config.steps));
}

std::unique_ptr<Feed> Run::make_feed() const {
  if (site_.on_cpu()) return nullptr;
  const auto size = static_cast<std::size_t>(world_.size());
  const std::size_t most = (static_cast<std::size_t>(config_.batch.global) + size - 1) / size;
  std::vector<std::size_t> largest;
  const std::uint32_t any[] = {0};
  for (const auto& [name, array] : collate(*data_.train, any, transforms_for(config_, data_)))
    largest.push_back(most * array.byte_count());
  return std::make_unique<Feed>(site_.gpu(), site_.where().index, largest,
                                static_cast<std::size_t>(config_.data.prefetch));
}

/// Images and labels, where the network is. The memory is the batch's or the feed's.
std::pair<at::Tensor, at::Tensor> Run::tensors_of(const Batch& batch) const {
  if (feed_) site_.compute().follow(feed_->arrived(batch));
  at::Tensor input, target;
  std::size_t field = 0;
  for (const auto& [name, array] : batch) {
    const auto there = [&] {
      const std::shared_ptr<std::byte> memory(std::shared_ptr<void>(),
                                              static_cast<std::byte*>(feed_->field(batch, field)));
      return site_.tensor(memory, 0, array.shape(), scalar_type(array.dtype()));
    };
    if (name == data_.inputs[0]) input = feed_ ? there() : to_tensor(array);
    if (name == data_.target) target = feed_ ? there() : to_tensor(array);
    ++field;
  }
  return {input.to(type_), target};
}

void Run::train_step(std::size_t epoch, Batch& batch) {
  const double rate = learning_rate(config_, step_, loader_.steps(), total_steps_);
  for (auto& group : optimizer_.param_groups()) static_cast<torch::optim::SGDOptions&>(group.options()).lr(rate);
  const auto [input, target] = tensors_of(batch);
  Moment moment{.epoch = epoch, .step = step_, .learning_rate = rate, .input = &input, .target = &target};
  call(hooks_.on_sample, moment);
  at::Tensor output, loss;
  sync_.zero_grad();
  if (batch.count > 0) {
    output = network_.forward(input);
    loss = functional::cross_entropy(output, target);
    moment.output = &output;
    moment.loss = loss.item<double>();
  }
  call(hooks_.on_forward, moment);
  sync_.weight(static_cast<double>(batch.count) / static_cast<double>(batch.global_count));
  if (batch.count > 0) loss.backward();
  sync_.finish();
  call(hooks_.on_backward, moment);
  optimizer_.step();
  call(hooks_.on_update, moment);
  if (feed_) site_.compute().record(feed_->used(batch));
  sums_.push_back(moment.loss * static_cast<double>(batch.count));
  counts_.push_back(static_cast<double>(batch.global_count));
  epoch_samples_ += batch.global_count;
  ++step_;
}

/// False when the limit of steps ended it.
bool Run::train_epoch(std::size_t epoch) {
  network_.module->train();
  loader_.start_epoch(epoch);
  sums_.clear();
  counts_.clear();
  epoch_samples_ = 0;
  const auto begin = Clock::now();
  while (step_ < total_steps_) {
    std::optional<Batch> batch = loader_.next();
    if (!batch) break;
    train_step(epoch, *batch);
    const double mean = batch->count > 0 ? sums_.back() / static_cast<double>(batch->count) : 0;
    report_.step(epoch + 1, batch->step + 1, loader_.steps(), mean, static_cast<double>(epoch_samples_) / since(begin));
  }
  end_epoch(epoch, since(begin));
  return step_ < total_steps_;
}

void Run::evaluate(EpochResult& result) {
  const at::NoGradGuard no_grad;
  network_.module->eval();
  const Range mine = share(data_.test->size(), world_.rank(), world_.size());
  const std::vector<Transform> plain = data_.preparation();
  const at::Device there = site_.tensors();
  std::vector<double> totals(2);  // loss, right answers
  for (std::size_t done = 0; done < mine.count;) {
    std::vector<std::uint32_t> ids(std::min<std::size_t>(256, mine.count - done));
    std::iota(ids.begin(), ids.end(), static_cast<std::uint32_t>(mine.begin + done));
    const Batch batch = collate(*data_.test, ids, plain);
    const at::Tensor output = network_.forward(to_tensor(batch[data_.inputs[0]]).to(there, type_));
    const at::Tensor target = to_tensor(batch[data_.target]).to(there);
    totals[0] += functional::cross_entropy(output, target).item<double>() * static_cast<double>(ids.size());
    totals[1] += output.argmax(1).eq(target).sum().item<double>();
    done += ids.size();
  }
  world_.allreduce(totals, sum).wait();
  result.test_loss = totals[0] / static_cast<double>(data_.test->size());
  result.accuracy = totals[1] / static_cast<double>(data_.test->size());
}

void Run::end_epoch(std::size_t epoch, double seconds) {
  // One reduction for all that the epoch has to tell: losses by step, seconds waited, seconds.
  std::vector<double> totals = sums_;
  totals.push_back(sync_.stats().wait_seconds - waited_before_);
  totals.push_back(seconds);
  waited_before_ = sync_.stats().wait_seconds;
  world_.allreduce(totals, sum).wait();
  EpochResult result{.epoch = epoch + 1, .epochs = static_cast<std::size_t>(config_.epochs)};
  double loss = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    result_.losses.push_back(totals[i] / counts_[i]);
    loss += totals[i];
  }
  const double samples = static_cast<double>(epoch_samples_);
  const double mean_seconds = totals[sums_.size() + 1] / world_.size();
  result.train_loss = loss / samples;
  result.images_per_second = samples / mean_seconds;
  result.communication = totals[sums_.size()] / totals[sums_.size() + 1];
  nn::synchronize_buffers(*network_.module, world_, buffers_, network_.site);
  evaluate(result);
  result_.epochs.push_back(result);
  report_.epoch(result);
  call(hooks_.on_end_epoch, {.epoch = epoch, .step = step_, .result = &result_.epochs.back()});
}

void Run::announce() {
  std::int64_t parameters = 0;
  for (const at::Tensor& each : nn::parameters(*network_.module)) parameters += each.numel();
  report_.line(config_.model.name + " with " + std::to_string(parameters) + " parameters of " + config_.dtype + " in " +
               std::to_string(sync_.buckets()) + " gradient buckets; " + std::to_string(world_.size()) +
               (world_.size() == 1 ? " rank" : " ranks") + ", global batch " + std::to_string(config_.batch.global) +
               "; this one on " + site_.describe() + (network_.why_here.empty() ? "" : ", as " + network_.why_here));
}

TrainResult Run::train() {
  nn::synchronize_parameters(*network_.module, world_, 0, network_.site);
  announce();
  call(hooks_.on_start, {});
  for (std::size_t epoch = 0; epoch < static_cast<std::size_t>(config_.epochs); ++epoch) {
    call(hooks_.on_start_epoch, {.epoch = epoch, .step = step_});
    if (!train_epoch(epoch)) break;
  }
  call(hooks_.on_end, {.epoch = result_.epochs.size(), .step = step_, .result = &result_.epochs.back()});
  try {
    nn::check_replicas(
        *network_.module, world_,
        buffers_ == nn::BufferPolicy::local ? nn::Compared::parameters : nn::Compared::parameters_and_buffers);
  } catch (const Error& error) {
    throw ReplicaError(error, std::move(result_));
  }
  return result_;
}

}  // namespace

void settle(Network& network, const Config& config, Communicator& world) {
  std::string why_not;
  if (config.device != "cpu") {
    Offer offer{.torch_has_cuda = nn::torch_has_cuda(), .torch_devices = nn::torch_cuda_devices(), .why_not = {}};
    if (offer.torch_has_cuda) {  // else nobody asks whether there are devices
      offer.why_not = world.accelerator().why_not();
      offer.devices = static_cast<int>(world.accelerator().devices().size());
    }
    why_not = why_no_device(offer);
  }
  const DeviceChoice choice = choose_device(config.device, why_not, world);
  network.why_here = choice.why_not;
  network.site = choice.on_device
                     ? nn::site_of(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(world.device())), world)
                     : std::make_shared<nn::Site>();
}

TrainResult train(const Config& config, Communicator world, Network network, const DataSplit& data,
                  const Hooks& hooks) {
  set_threads(static_cast<int>(config.threads));
  if (!network.site) network.site = std::make_shared<nn::Site>();
  network.module->to(network.site->tensors());
  return Run(config, std::move(world), std::move(network), data, hooks).train();
}

}  // namespace tutti::engine
