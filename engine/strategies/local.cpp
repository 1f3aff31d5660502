#include "engine/strategies/local.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>

#include "engine/optimizers/optimizer.hpp"
#include "engine/strategies/flat.hpp"

namespace tutti::engine::exchange {

Local::Local(Traits traits, Replica replica)
    : Strategy(std::move(traits)), replica_(std::move(replica)), trained_(trained_of(replica_.parameters)) {}

void Local::begin_step(const StepShare& share) {
  share_ = share;
  for (auto& [name, tensor] : trained_) tensor.mutable_grad() = at::Tensor();
}

double Local::begin_piece(std::size_t, std::size_t count) {
  return static_cast<double>(count) * replica_.world.size() / static_cast<double>(share_.global_count);
}

/// Gives a rank without a sample zero gradients, so that its optimizer's state advances as on other ranks. A parameter
/// that has never had a gradient gets none.
void Local::end_backward() {
  if (share_.count > 0) return;
  const OptimizerState remembered = replica_.optimizer.state();
  for (auto& [name, tensor] : trained_)
    if (std::ranges::find(remembered.tensors, name + ".step", &nn::NamedTensor::first) != remembered.tensors.end())
      tensor.mutable_grad() = at::zeros_like(tensor);
}

void Local::waited(const std::function<void()>& call) {
  replica_.tensor_device->wait_for_computed();  // so that only communication is timed
  const auto begin = std::chrono::steady_clock::now();
  call();
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace tutti::engine::exchange
