#include "tools/train/dry_run.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <limits>
#include <numeric>

#include "engine/models/model.hpp"
#include "engine/models/split.hpp"
#include "engine/optimizers/optimizer.hpp"
#include "engine/report/forecast.hpp"
#include "engine/server/roles.hpp"
#include "engine/strategies/axes.hpp"
#include "engine/strategies/explain.hpp"
#include "nn/bucket.hpp"
#include "nn/tensor.hpp"
#include "tools/train/request.hpp"
#include "tools/train/split_plan.hpp"
#include "tools/train/summary.hpp"
#include "transports/core/host.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/store.hpp"

namespace tutti::tools {
namespace {

using engine::Config;
using engine::Moment;

std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The times of the fastest of several steps, in seconds, and the optimizer's memory.
struct Rehearsal {
  double forward = std::numeric_limits<double>::max(), backward = forward, update = forward;
  double optimizer_bytes = 0;
  double step() const { return forward + backward + update; }
};

/// Runs a few steps with `samples` samples each, on one rank alone.
Rehearsal rehearse(Config config, const engine::Network& network, engine::DataSplit data, std::int64_t samples) {
  config.batch.global = samples;
  config.epochs = config.steps = 4;
  config.run.clear();
  config.checkpoint = {};
  config.validate = {};
  config.stop = {};
  config.parallel = {};
  config.report = {.progress = "none", .loss_file = {}};
  std::vector<engine::SampleId> some(std::min<std::size_t>(data.train->size(), 4 * static_cast<std::size_t>(samples)));
  std::iota(some.begin(), some.end(), 0U);
  data.train = std::make_shared<engine::Subset>(data.train, some);
  data.test = std::make_shared<engine::Subset>(data.test, std::vector<engine::SampleId>{0});
  Rehearsal found;
  engine::Nanoseconds last = 0;
  const auto note = [&last](double& into) {
    return [&last, &into](const Moment& now) {
      const engine::Nanoseconds time = engine::steady_now();
      // skips the first step, which allocates memory
      if (now.step > 0) into = std::min(into, 1e-9 * static_cast<double>(time - last));
      last = time;
    };
  };
  engine::Hooks hooks{.on_sample = [&last](const Moment&) { last = engine::steady_now(); },
                      .on_forward = note(found.forward),
                      .on_backward = note(found.backward),
                      .on_update = note(found.update)};
  engine::Trainer trainer(config, Communicator::connect({}), {.network = network, .data = data}, hooks);
  trainer.run();
  for (const auto& [name, tensor] : trainer.optimizer().state().tensors)
    found.optimizer_bytes += static_cast<double>(tensor.nbytes());
  return found;
}

/// Returns the seconds of an allreduce of `count` floats: the mean of `times` calls, in the fastest of several rounds.
double seconds_of(Communicator& world, std::size_t count, int times) {
  auto memory = world.allocate<float>(count);
  std::fill(memory.begin(), memory.end(), 1.0F);
  engine::Nanoseconds best = std::numeric_limits<engine::Nanoseconds>::max();
  for (int round = 0; round < 5; ++round) {
    world.barrier().wait();
    const engine::Nanoseconds begin = engine::steady_now();
    for (int i = 0; i < times; ++i) world.allreduce(memory, avg).wait();
    best = std::min(best, engine::steady_now() - begin);
  }
  return 1e-9 * static_cast<double>(best) / times;
}

engine::Link measure_link() {
  Bootstrap two;
  two.size = two.local_size = 2;
  two.store = make_local_store();
  two.launcher = "dry run";
  two.settings = Settings::from_environment();
  two.settings.job = "dry-run-" + std::to_string(::getpid());
  two.settings.secret = "dry run";
  const auto play = [two](int rank) {
    Bootstrap mine = two;
    mine.rank = mine.local_rank = rank;
    Communicator world = Communicator::connect(mine);
    constexpr std::size_t many = 1 << 20;
    const double little = seconds_of(world, 2, 200), large = seconds_of(world, many, 10);
    return engine::Link{.latency = little / 2,
                        .bytes_per_second = sizeof(float) * many / std::max(large - little, 1e-9)};
  };
  auto other = std::async(std::launch::async, play, 1);
  const engine::Link link = play(0);
  other.get();
  return link;
}

/// Returns the bytes of each bucket in the order of their exchange, including a flag for each gradient.
std::vector<std::size_t> buckets_of(const Config& config, const std::vector<nn::NamedTensor>& parameters) {
  std::vector<nn::ParameterSize> sizes;
  for (const auto& [name, tensor] : parameters)
    if (tensor.requires_grad()) sizes.push_back({nn::dtype_of(tensor), static_cast<std::size_t>(tensor.numel())});
  std::vector<std::size_t> found;
  for (const nn::BucketPlan& bucket : nn::plan_buckets(sizes, nn::last_to_first(sizes.size()),
                                                       static_cast<std::size_t>(config.sync.first_bucket_bytes),
                                                       static_cast<std::size_t>(config.sync.bucket_bytes)))
    found.push_back((bucket.count + bucket.parameters.size()) * size_of(bucket.dtype));
  return found;
}

/// The exchanges between ranks: gradients in buckets in each step, or all parameters every few steps.
struct Exchange {
  std::vector<std::size_t> buckets;
  std::int64_t every = 0;  ///< steps between exchanges of all parameters; 0: exchanges gradients
  double bytes() const { return static_cast<double>(std::accumulate(buckets.begin(), buckets.end(), std::size_t{0})); }
};

Exchange exchange_of(const Config& config, const std::vector<nn::NamedTensor>& parameters, double bytes) {
  const engine::Axes axes = engine::axes_of(config);
  if (axes.what == engine::Axes::What::gradients) return {.buckets = buckets_of(config, parameters)};
  return {.buckets = {static_cast<std::size_t>(bytes)}, .every = axes.every};
}

std::string text_of(const Exchange& exchange, int ranks) {
  const std::string sent = bytes_text(engine::ring_bytes(exchange.bytes(), ranks));
  if (exchange.every == 0)
    return fmt::format("{} of gradients in {} buckets; each rank sends 2 (P-1) / P of it, {} a step",
                       bytes_text(exchange.bytes()), exchange.buckets.size(), sent);
  return fmt::format("{} of parameters; each rank sends 2 (P-1) / P of it, {} every {} steps",
                     bytes_text(exchange.bytes()), sent, exchange.every);
}

/// Returns a note that the figures do not account for a codec or for exchanges in pairs; empty if neither is used.
std::string compression_note(const Config& config) {
  const engine::Axes axes = engine::axes_of(config);
  std::string note;
  if (axes.codec.kind != engine::CodecChoice::Kind::none)
    note = "; as if there were no strategy.codec=" + axes.codec.describe();
  if (axes.how == engine::Axes::How::pairs)
    note += "; as if it were over all ranks: --explain-strategy has the bytes of pairs";
  return note;
}

std::string prediction(const Exchange& exchange, int ranks, const Rehearsal& alone, const engine::Link& link,
                       std::int64_t batch) {
  engine::Forecast expected = engine::forecast(exchange.buckets, ranks, alone.backward, link);
  if (exchange.every > 0)  // one step's share of an exchange after the update, which overlaps with nothing
    expected.exposed = expected.communication /= static_cast<double>(exchange.every);
  const double step = alone.step() + expected.exposed;
  return fmt::format(
      "{:.3g} ms of communication, of which backward hides {:.3g}: {:.3g} ms exposed; {:.3g} ms a step, "
      "{:.0f} samples/s, if each rank has a core of its own",
      1e3 * expected.communication, 1e3 * (expected.communication - expected.exposed), 1e3 * expected.exposed,
      1e3 * step, static_cast<double>(batch) / step);
}

}  // namespace

void check_parallelism(Config config, int ranks) {
  config.check_split(ranks);
  const int dealt = engine::mesh_axes(config, ranks).front().size;  // number of ranks that divide the samples
  config.resolve_batch(dealt);
  if (config.batch.global < dealt)
    throw Error(Code::invalid,
                fmt::format("batch.global={} has no sample for some of {} ranks: make it at least {}, or "
                            "start fewer ranks",
                            config.batch.global, dealt, dealt));
}

namespace {

/// The common part of both kinds of dry run.
struct Prepared {
  engine::DataSplit data;
  engine::Network network;
  double count = 0, bytes = 0;  ///< number and bytes of all parameters
  std::int64_t share = 0;       ///< samples of one rank per step
};

Prepared prepared(const Config& config, int dealt) {
  Prepared found{.data = data_of(config), .network = {}};
  Communicator alone = Communicator::connect({});
  found.network = engine::make_network(config, found.data);
  engine::choose_device(found.network, config, alone);
  for (const auto& [name, tensor] : engine::tensors_of(found.network).parameters) {
    found.count += static_cast<double>(tensor.numel());
    found.bytes += static_cast<double>(tensor.nbytes());
  }
  found.share = ceiling(config.batch.global, dealt);
  return found;
}

std::string about(const Config& config, const Prepared& found, const std::string& mesh) {
  const std::int64_t pieces = config.batch.micro > 0 ? ceiling(found.share, config.batch.micro) : 1;
  return "dry run: no rank was started\n" + line("data", found.data.description) +
         line("mesh", fmt::format("{}; this host has {} cores", mesh, usable_cores())) +
         line("batch",
              fmt::format("{} samples a step: up to {} on each rank, in {} piece{} of up to {}", config.batch.global,
                          found.share, pieces, pieces == 1 ? "" : "s", ceiling(found.share, pieces))) +
         line("model", fmt::format("{}: {:.0f} parameters of {}, {}", config.model.name, found.count, config.dtype,
                                   bytes_text(found.bytes)));
}

std::string times_text(const Rehearsal& step, const char* whose) {
  return line("step",
              fmt::format("{:.3g} ms by one rank alone{}: forward {:.3g}, backward {:.3g}, update {:.3g}",
                          1e3 * step.step(), whose, 1e3 * step.forward, 1e3 * step.backward, 1e3 * step.update));
}

/// The dry run of a split network.
std::string split_run(const Config& config, const std::vector<Mesh::Axis>& axes, int ranks) {
  const int dealt = axes.front().size;
  const Prepared found = prepared(config, dealt);
  const SplitPlan plan = plan_split(config, engine::settings_of(config, found.data), axes, found.share);
  const Rehearsal step = rehearse(config, found.network, found.data, found.share);
  const auto weights = static_cast<double>(plan.weights());
  std::string text = about(config, found, fmt::format("{} ranks as mesh {}", ranks, Mesh::name_of(axes)));
  text += line("layers", "what the rank with the most gives to collectives in a step, and keeps") + split_text(plan);
  if (dealt > 1)
    text += line("exchange", fmt::format("{} of gradients along data; each rank sends 2 (P-1) / P of it, {} a step",
                                         bytes_text(weights), bytes_text(engine::ring_bytes(weights, dealt))));
  text += line("memory", fmt::format("of this rank: parameters {}, gradients {}, optimizer {}, activations {}",
                                     bytes_text(weights), bytes_text(weights),
                                     bytes_text(step.optimizer_bytes * weights / found.bytes),
                                     bytes_text(static_cast<double>(plan.activations()))));
  return text + times_text(step, " with the whole network");
}

}  // namespace

std::string dry_run(Config config, int ranks, const std::string& link) {
  check_parallelism(config, ranks);
  const std::vector<Mesh::Axis> axes = engine::mesh_axes(config, ranks);
  config.resolve_batch(axes.front().size);
  config.batch.per_rank = 0;
  const engine::Link given = link.empty() ? engine::Link() : engine::Link::parse(link);
  if (axes.size() > 1) return split_run(config, axes, ranks);
  const Prepared found = prepared(config, ranks);
  const Exchange exchange = exchange_of(config, engine::tensors_of(found.network).parameters, found.bytes);
  const Rehearsal step = rehearse(config, found.network, found.data, found.share);
  const engine::Link used = link.empty() && ranks > 1 ? measure_link() : given;
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);

  std::string text = about(config, found, fmt::format("{} rank{}, data parallel", ranks, ranks == 1 ? "" : "s"));
  text += line("exchange", text_of(exchange, ranks) + compression_note(config));
  text +=
      line("memory",
           fmt::format("of each rank: parameters {}, gradients {}, optimizer {}; {} with all libraries, data and "
                       "what forward keeps",
                       bytes_text(found.bytes), bytes_text(exchange.every == 0 ? exchange.bytes() : found.bytes),
                       bytes_text(step.optimizer_bytes), bytes_text(1024.0 * static_cast<double>(usage.ru_maxrss))));
  text += times_text(step, "");
  if (ranks == 1) return text;
  text +=
      line("link", used.text() + (link.empty() ? " between two threads of this host; another one: --link 20us,10gbit"
                                               : ", as was given"));
  return text + line("prediction", prediction(exchange, ranks, step, used, config.batch.global));
}

std::string explain_strategy(Config config, int ranks) {
  config.resolve_batch(ranks);
  const engine::DataSplit data = data_of(config);
  const engine::NetworkTensors all = engine::tensors_of(engine::make_network(config, data));
  return engine::explain_strategy(config, all.parameters, all.buffers, ranks) +
         engine::explain_groups(config, all.parameters, ranks);
}

}  // namespace tutti::tools
