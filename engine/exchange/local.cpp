#include "engine/exchange/local.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>

#include "engine/optimizers/optimizer.hpp"

namespace tutti::engine::exchange {
namespace {

std::vector<at::Tensor> trained(const std::vector<nn::NamedTensor>& parameters) {
  std::vector<at::Tensor> found;
  for (const auto& [name, tensor] : parameters)
    if (tensor.requires_grad()) found.push_back(tensor);
  return found;
}

}  // namespace

Local::Local(Traits traits, std::size_t every, Replica replica)
    : Strategy(std::move(traits)),
      every_(every),
      replica_(std::move(replica)),
      trained_(trained(replica_.parameters)),
      flats_(flats_of(trained_, replica_.world, *replica_.site)) {}

void Local::begin_step(const StepShare& share) {
  share_ = share;
  for (at::Tensor& each : trained_) each.mutable_grad() = at::Tensor();
}

double Local::begin_piece(std::size_t, std::size_t count) {
  return static_cast<double>(count) * replica_.world.size() / static_cast<double>(share_.global_count);
}

/// A rank without a sample has gradients of zero, so that momentum goes on as it does on the others. A parameter that
/// had no gradient so far is left without.
void Local::end_backward() {
  if (share_.count > 0) return;
  const OptimizerState remembered = replica_.optimizer.state();
  for (auto& [name, tensor] : replica_.parameters)
    if (tensor.requires_grad() &&
        std::ranges::find(remembered.tensors, name + ".step", &nn::NamedTensor::first) != remembered.tensors.end())
      tensor.mutable_grad() = at::zeros_like(tensor);
}

void Local::start(Reduction reduction) {
  since_ = 0;
  replica_.site->note_computed();
  for (Flat& flat : flats_) {
    works_.push_back(replica_.world.allreduce(flat.buffer(), reduction, replica_.site->options()));
    stats_.bytes += flat.buffer().bytes();
  }
  ++stats_.exchanges;
}

void Local::wait() {
  replica_.site->wait_for_computed();  // so that what follows is communication alone
  const auto begin = std::chrono::steady_clock::now();
  for (Work& work : works_) work.wait();
  works_.clear();
  ++stats_.finished;
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace tutti::engine::exchange
