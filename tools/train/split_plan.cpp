#include "tools/train/split_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "engine/models/parallel/parallel.hpp"

namespace tutti::tools {
namespace {

std::string row(const std::string& layer, const std::string& split, double forward, double backward, double weights,
                double activations, double halos) {
  return fmt::format(
      "  {:<12}{:<18}sends {} forward, {} backward; keeps weights {}, activations {}, of these halos {}\n", layer,
      split, bytes_text(forward), bytes_text(backward), bytes_text(weights), bytes_text(activations),
      bytes_text(halos));
}

}  // namespace

template <class Numbers>
std::int64_t SplitPlan::total(Numbers of) const {
  std::int64_t numbers = 0;
  for (const engine::LayerCost& each : layers) numbers += of(each);
  return numbers * width;
}

std::int64_t SplitPlan::weights() const {
  return total([](const engine::LayerCost& each) { return each.weights; });
}
std::int64_t SplitPlan::activations() const {
  return total([this](const engine::LayerCost& each) { return (each.outputs + each.halo) * samples; });
}
std::int64_t SplitPlan::forward() const {
  return total([this](const engine::LayerCost& each) { return each.sent_forward(samples); });
}
std::int64_t SplitPlan::backward() const {
  return total([this](const engine::LayerCost& each) { return each.sent_backward(samples); });
}

SplitPlan plan_split(const engine::Config& config, const engine::ModelSettings& settings,
                     const std::vector<Mesh::Axis>& axes, std::int64_t samples) {
  const auto cost = [](const SplitPlan& each) {
    return each.weights() + each.activations() + each.forward() + each.backward();
  };
  int ranks = 1;
  for (const Mesh::Axis& axis : axes) ranks *= axis.size;
  SplitPlan most;
  for (int rank = 0; rank < std::min(ranks, 16); ++rank) {
    SplitPlan plan{.layers = engine::plan_parallel_model(settings, axes, rank, engine::split_choices(config)),
                   .rank = rank,
                   .samples = samples,
                   .width = config.dtype == "float64" ? 8 : 4};
    if (rank == 0 || cost(plan) > cost(most)) most = std::move(plan);
  }
  return most;
}

std::string split_text(const SplitPlan& plan) {
  std::string text;
  double halos = 0;
  const auto bytes = [&](std::int64_t numbers) { return static_cast<double>(numbers * plan.width); };
  for (const engine::LayerCost& each : plan.layers) {
    const double halo = bytes(each.halo * plan.samples);
    halos += halo;
    text += row(each.layer, each.split, bytes(each.sent_forward(plan.samples)), bytes(each.sent_backward(plan.samples)),
                bytes(each.weights), bytes(each.outputs * plan.samples) + halo, halo);
  }
  return text + row("all", fmt::format("rank {}", plan.rank), static_cast<double>(plan.forward()),
                    static_cast<double>(plan.backward()), static_cast<double>(plan.weights()),
                    static_cast<double>(plan.activations()), halos);
}

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  return bytes >= 1e6 ? fmt::format("{:.2f} MB", bytes / 1e6) : fmt::format("{:.1f} kB", bytes / 1e3);
}

}  // namespace tutti::tools
