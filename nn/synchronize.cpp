// Everything travels fused: one flat buffer for many small tensors.
#include "nn/synchronize.hpp"

#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "nn/tensor.hpp"

namespace tutti::nn {
namespace {

using NamedTensor = std::pair<std::string, at::Tensor>;

constexpr std::size_t piece_bytes = std::size_t{32} << 20;  // bounds the flat copy of a large network

std::vector<NamedTensor> named_state(const torch::nn::Module& module) {
  std::vector<NamedTensor> state;
  for (const auto& item : module.named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) state.emplace_back(item.key(), item.value());
  return state;
}

void require_cpu(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || tensor.layout() != at::kStrided)
    throw Error(Code::unsupported, "'" + name + "' is not a dense CPU tensor: move the module to the CPU first");
}

/// FNV-1a over 64-bit words, each mixed, then the tail.
std::int64_t hash(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  std::uint64_t h = 0xcbf29ce484222325ULL;
  const auto fold = [&h](const char* bytes, std::size_t count) {
    for (std::size_t i = 0; i < count; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<std::size_t>(8, count - i));
      h = (h ^ word) * 0x100000001b3ULL;
      h ^= h >> 29;
    }
  };
  fold(name.data(), name.size());
  fold(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
  return static_cast<std::int64_t>(h);
}

/// Averages in place; all ranks pass tensors of the same sizes.
void average_fused(const std::vector<at::Tensor>& tensors, Communicator& communicator) {
  std::map<DType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& each : tensors) by_dtype[dtype_of(each)].push_back(each);
  for (auto& [dtype, group] : by_dtype) {
    std::int64_t total = 0;
    for (const at::Tensor& each : group) total += each.numel();
    const at::Tensor flat = at::empty({total}, group.front().options());
    std::int64_t at = 0;
    for (const at::Tensor& each : group) {
      flat.narrow(0, at, each.numel()).view(each.sizes()).copy_(each);
      at += each.numel();
    }
    communicator.allreduce(buffer(flat), avg).wait();
    at = 0;
    for (at::Tensor& each : group) {
      each.copy_(flat.narrow(0, at, each.numel()).view(each.sizes()));
      at += each.numel();
    }
  }
}

}  // namespace

void synchronize_parameters(torch::nn::Module& module, Communicator communicator, int root) {
  const at::NoGradGuard no_grad;
  const auto state = named_state(module);
  for (std::size_t next = 0; next < state.size();) {
    std::vector<at::Tensor> piece;
    std::vector<std::byte> bytes;
    while (next < state.size() && (piece.empty() || bytes.size() + state[next].second.nbytes() <= piece_bytes)) {
      require_cpu(state[next].first, state[next].second);
      piece.push_back(state[next].second.detach().contiguous());
      const auto* data = static_cast<const std::byte*>(piece.back().data_ptr());
      bytes.insert(bytes.end(), data, data + piece.back().nbytes());
      ++next;
    }
    communicator.broadcast(bytes, root).wait();
    const std::byte* from = bytes.data();
    for (std::size_t i = 0; i < piece.size(); ++i) {
      std::memcpy(piece[i].data_ptr(), from, piece[i].nbytes());
      at::Tensor target = state[next - piece.size() + i].second.detach();
      if (!target.is_same(piece[i]) && target.data_ptr() != piece[i].data_ptr()) target.copy_(piece[i]);
      from += piece[i].nbytes();
    }
  }
}

GradientReport average_gradients(torch::nn::Module& module, Communicator communicator) {
  const at::NoGradGuard no_grad;
  const auto parameters = module.named_parameters();
  std::vector<std::uint8_t> present;
  for (const auto& item : parameters) {
    require_cpu(item.key(), item.value());
    present.push_back(item.value().grad().defined() ? 1 : 0);
  }
  if (!present.empty()) communicator.allreduce(present, max).wait();
  GradientReport report;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor parameter = parameters[i].value();
    if (!present[i]) {
      report.without_gradient.push_back(parameters[i].key());
      continue;
    }
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    gradients.push_back(parameter.grad());
  }
  average_fused(gradients, communicator);
  report.averaged = gradients.size();
  return report;
}

void check_replicas(const torch::nn::Module& module, Communicator communicator) {
  const auto state = named_state(module);
  const auto size = static_cast<std::size_t>(communicator.size());
  const std::vector<std::int64_t> count{static_cast<std::int64_t>(state.size())};
  std::vector<std::int64_t> counts(size);
  communicator.allgather(count, counts).wait();
  for (std::size_t r = 1; r < size; ++r)
    if (counts[r] != counts[0])
      throw Error(Code::mismatch, "replicas differ: rank 0 has " + std::to_string(counts[0]) +
                                      " parameters and buffers, rank " + std::to_string(r) + " has " +
                                      std::to_string(counts[r]));
  if (state.empty()) return;
  std::vector<std::int64_t> mine, all(size * state.size());
  for (const auto& [name, tensor] : state) mine.push_back(hash(name, tensor));
  communicator.allgather(mine, all).wait();
  for (std::size_t i = 0; i < state.size(); ++i) {
    std::string ranks;
    for (std::size_t r = 1; r < size; ++r)
      if (all[r * state.size() + i] != all[i]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
    if (!ranks.empty())
      throw Error(Code::mismatch, "replicas differ: '" + state[i].first + "' on rank " + ranks +
                                      " is not bitwise equal to rank 0's; call synchronize_parameters() first, and "
                                      "update every replica with the same gradients");
  }
}

}  // namespace tutti::nn
