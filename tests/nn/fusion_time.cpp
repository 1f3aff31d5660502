// Measures 200 gradients of 1 KiB, each in an allreduce of its own, and all in one bucket. Started as the ranks of a
// job; rank 0 prints both times. tests/training/run reads them.
#include <ATen/Functions.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nn/gradient_sync.hpp"
#include "tutti/communicator.hpp"

namespace {

constexpr int tensors = 200, rounds = 200;
constexpr std::size_t elements = 256;

double median_us(tutti::Communicator& world, const std::function<void()>& before, const std::function<void()>& timed) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    before();
    world.barrier().wait();
    const auto begin = std::chrono::steady_clock::now();
    timed();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::ranges::nth_element(times, times.begin() + rounds / 2);
  return times[rounds / 2];
}

}  // namespace

int main() {
  auto world = tutti::Communicator::from_env();
  std::vector<tutti::nn::NamedTensor> parameters;
  for (int index = 0; index < tensors; ++index)
    parameters.emplace_back("p" + std::to_string(index),
                            at::ones({static_cast<std::int64_t>(elements)}).requires_grad_());
  tutti::nn::GradientSync sync(parameters, world);
  const auto backward = [&] {
    sync.zero_grad();
    at::Tensor loss = at::zeros({});
    for (const auto& [name, tensor] : parameters) loss = loss + tensor.sum();
    loss.backward();
  };
  const auto backward_alone = [&] {
    const auto alone = sync.no_sync();
    backward();
  };
  backward();
  sync.finish();  // settles the order of the buckets

  const double fused = median_us(world, backward_alone, [&] { sync.finish(); });
  const double each = median_us(world, backward_alone, [&] {
    for (const auto& [name, tensor] : parameters) {
      const at::Tensor& gradient = tensor.grad();
      world.allreduce(std::span(gradient.data_ptr<float>(), elements), tutti::avg).wait();
    }
  });
  if (world.rank() == 0)
    std::printf("%d tensors of 1 KiB: in %zu buckets %.1f us, an allreduce each %.1f us\n", tensors, sync.buckets(),
                fused, each);
}
