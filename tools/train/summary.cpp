#include "tools/train/summary.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "engine/loop/run_config.hpp"
#include "tools/shell.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;
using engine::EpochResult;
using engine::Validation;

constexpr double images = 5120;  // reported times are per 5120 images, as in Theano-MPI's tables

std::string value_of(const Validation& found) {
  if (found.metrics.empty()) return fmt::format("held-out loss {:.4g}", found.loss);
  const auto& [name, value] = found.metrics[0];
  return engine::is_share(name) ? fmt::format("{} {:.2f} %", name, 100 * value) : fmt::format("{} {:.4g}", name, value);
}

/// Returns the sums over all epochs.
EpochResult whole(const std::vector<EpochResult>& epochs, double& samples) {
  EpochResult all;
  for (const EpochResult& each : epochs) {
    all.phases.compute += each.phases.compute;
    all.phases.communication += each.phases.communication;
    all.phases.waiting += each.phases.waiting;
    all.phases.load += each.phases.load;
    all.phases.other += each.phases.other;
    all.ranks = std::max(all.ranks, each.ranks);
    samples += each.samples_per_second * each.phases.wall();
    for (const engine::WaitedFor& late : each.waited_for) {
      const auto found = std::ranges::find(all.waited_for, late.rank, &engine::WaitedFor::rank);
      if (found == all.waited_for.end())
        all.waited_for.push_back(late);
      else
        found->seconds += late.seconds;
    }
  }
  return all;
}

std::string speed(const std::vector<EpochResult>& epochs) {
  double samples = 0;
  const EpochResult all = whole(epochs, samples);
  const auto seconds = [&](double spent) { return fmt::format("{:.3g} s", images * spent / samples); };
  std::string text = fmt::format("{:.0f} samples/s; time per 5,120 samples {}: compute {}", samples / all.phases.wall(),
                                 seconds(all.phases.wall()), seconds(all.phases.compute));
  if (all.ranks > 1)
    text +=
        fmt::format(", communication {}, waiting {}{}", seconds(all.phases.communication), seconds(all.phases.waiting),
                    all.waited_for.empty() ? "" : fmt::format(" (most for rank {})", all.latest().rank));
  return text + fmt::format(", load {}, other {}", seconds(all.phases.load), seconds(all.phases.other));
}

/// Returns the keys that a resumed run needs so that it does not end at once.
std::string keys_to_go_on(const engine::Config& config, const engine::TrainResult& result) {
  if (result.interrupted) return {};
  std::string keys = fmt::format(" epochs={}", 2 * config.epochs);
  if (config.steps > 0) keys += fmt::format(" steps={}", 2 * config.steps);
  if (result.reached_target && config.stop.target != 0) keys += " stop.target=0";
  return keys;
}

}  // namespace

std::string line(const char* heading, const std::string& text) { return fmt::format("{:<12}{}\n", heading, text); }

std::string resume_command(const engine::Config& config, const std::string& launch) {
  return fmt::format("{} --resume {}", launch, shell_path(config.run));
}

std::string summary(const engine::Config& config, const engine::TrainResult& result, const std::string& launch) {
  std::string text;
  if (result.best_validation > 0)
    text += line("best", fmt::format("{} in epoch {} of {}", value_of(result.validations[result.best_validation - 1]),
                                     result.best_epoch, result.epochs.size()));
  if (!result.epochs.empty()) text += line("speed", speed(result.epochs));
  if (!result.epochs.empty() && result.epochs.back().ranks > 1)
    text += line("exchange", fmt::format("{} exchange{}, to which each rank gave {:.4g} MB", result.exchanged.exchanges,
                                         result.exchanged.exchanges == 1 ? "" : "s",
                                         1e-6 * static_cast<double>(result.exchanged.bytes)));
  if (!config.has_folder()) return text;
  const fs::path checkpoints = fs::path(config.run) / "checkpoints", best = checkpoints / "best",
                 last = checkpoints / "last";
  std::string kept;
  if (fs::exists(best))
    kept = "; the best checkpoint is " + best.string();
  else if (fs::exists(last))
    kept = fs::exists(last / "model.safetensors") ? "; the network is " + (last / "model.safetensors").string()
                                                  : "; the last checkpoint is " + last.string() +
                                                        ", in shards, of which `tutti checkpoint export` makes a file";
  text += line("run", config.run + kept);
  std::string next = "tutti plot " + shell_path(config.run);
  if (!launch.empty() && engine::has_checkpoint(config.run))
    next += "; " + resume_command(config, launch) + keys_to_go_on(config, result);
  return text + line("next", next);
}

}  // namespace tutti::tools
