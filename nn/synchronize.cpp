// Many small tensors are fused: they are copied to one flat buffer and sent together.
#include "nn/synchronize.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "nn/tensor.hpp"
#include "nn/tensor_device.hpp"
#include "transports/core/hash.hpp"
#include "transports/core/ranges.hpp"

namespace tutti::nn {
namespace {

constexpr std::size_t piece_bytes = std::size_t{32} << 20;  // limits the size of the flat copy

/// The device of the tensors. All tensors must be on the same device.
std::shared_ptr<TensorDevice> tensor_device_of_all(std::span<const NamedTensor> state,
                                                   const Communicator& communicator) {
  for (const auto& [name, tensor] : state)
    if (tensor.layout() != at::kStrided || tensor.device() != state.front().second.device())
      throw Error(Code::unsupported, "'" + name + "' is not a dense tensor on " + state.front().second.device().str() +
                                         ", where the others are: move the network to one device first");
  return state.empty() ? std::make_shared<TensorDevice>()
                       : tensor_device_of(state.front().second.device(), communicator);
}

at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.detach().contiguous().reshape({-1}).view(at::kByte); }

/// Consecutive tensors that are sent as one message, each at a multiple of 16 bytes.
class Piece {
 public:
  void add(const at::Tensor& tensor) {
    tensors_.push_back(tensor.detach());
    bytes_ += (tensor.nbytes() + 15) / 16 * 16;
  }
  bool has_room_for(const at::Tensor& tensor) const {
    return tensors_.empty() || bytes_ + tensor.nbytes() <= piece_bytes;
  }

  void broadcast(Communicator& communicator, int root, TensorDevice& tensor_device) {
    const std::shared_ptr<std::byte> memory = tensor_device.scratch(bytes_);
    at::Tensor flat = tensor_device.tensor(memory, 0, {static_cast<std::int64_t>(bytes_)}, at::kByte);
    flat.zero_();
    each(flat, [](at::Tensor part, const at::Tensor& tensor) { part.copy_(as_bytes(tensor)); });
    tensor_device.note_computed();
    communicator
        .broadcast(Buffer(memory.get(), bytes_, DType::u8, tensor_device.where()), root, tensor_device.options())
        .wait();
    each(flat, [](const at::Tensor& part, at::Tensor tensor) {
      tensor.copy_(part.view(tensor.scalar_type()).view(tensor.sizes()));
    });
    tensor_device.note_computed();
    tensor_device.wait_for_computed();  // before `memory` is released
  }

 private:
  template <class Does>
  void each(const at::Tensor& flat, Does does) const {
    std::int64_t at = 0;
    for (const at::Tensor& one : tensors_) {
      const auto bytes = static_cast<std::int64_t>(one.nbytes());
      if (bytes > 0) does(flat.narrow(0, at, bytes), one);
      at += (bytes + 15) / 16 * 16;
    }
  }
  std::vector<at::Tensor> tensors_;
  std::size_t bytes_ = 0;
};

std::int64_t hash(const std::string& name) { return static_cast<std::int64_t>(fnv1a(name)); }

/// A 64-bit hash: the sum of the tensor's words, each mixed with its index. Computed on the tensor's device. A change
/// of a single word always changes the hash.
at::Tensor hash(const at::Tensor& tensor) {
  constexpr std::int64_t step = 1 << 20;  // limits the temporary memory
  const auto odd = [](std::uint64_t number) { return at::Scalar(static_cast<std::int64_t>(number | 1)); };
  static constexpr at::ScalarType types[] = {at::kByte, at::kShort, at::kInt, at::kLong};
  const at::Tensor flat = as_bytes(tensor);
  const std::size_t width = std::min<std::size_t>(tensor.element_size(), 8);
  const at::Tensor words = flat.view(types[std::bit_width(width) - 1]);
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kLong));
  for (std::int64_t first = 0; first < words.numel(); first += step) {
    const std::int64_t count = std::min(step, words.numel() - first);
    at::Tensor mixed = at::arange(first, first + count, sum.options()).mul_(odd(0x9e3779b97f4a7c15ULL));
    mixed.add_(words.narrow(0, first, count)).mul_(odd(0xbf58476d1ce4e5b9ULL));
    mixed.bitwise_xor_(mixed.bitwise_right_shift(29).bitwise_and_((std::int64_t{1} << 35) - 1));
    sum.add_(mixed.mul_(odd(0x94d049bb133111ebULL)).sum());
  }
  return sum;
}

/// A hash of name and values for each tensor. The hashes must be equal on all ranks.
std::vector<std::int64_t> hashes(std::span<const NamedTensor> state) {
  std::vector<at::Tensor> parts;
  for (const auto& item : state) parts.push_back(hash(item.second));
  const at::Tensor all = at::stack(parts).cpu();
  std::vector<std::int64_t> values(all.data_ptr<std::int64_t>(), all.data_ptr<std::int64_t>() + all.numel());
  for (std::size_t i = 0; i < state.size(); ++i) values[i] ^= hash(state[i].first);
  return values;
}

/// The first index at which ranks have different values; nullopt if there is none. All ranks get the same result. Makes
/// one allreduce of the minima and maxima: 16 bytes a value, whatever the number of ranks.
std::optional<std::size_t> first_differing(const std::vector<std::int64_t>& values, Communicator& communicator) {
  std::vector<std::int64_t> least = values;
  for (const std::int64_t each : values) least.push_back(~each);  // ~ reverses the order, without overflow
  communicator.allreduce(least, min).wait();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (least[i] != ~least[values.size() + i]) return i;
  return std::nullopt;
}

struct Unlike {
  std::int64_t of_root = 0;
  std::vector<int> ranks = {};  ///< the ranks with another value, in ascending order
};

/// The ranks whose value differs from rank 0's; called only if one does. Makes a broadcast, and an allreduce of one bit
/// for each rank.
Unlike unlike_root(std::int64_t value, Communicator& communicator) {
  Unlike found{.of_root = communicator.broadcast(value, 0).wait()};
  const auto rank = static_cast<std::size_t>(communicator.rank());
  std::vector<std::uint8_t> bits((static_cast<std::size_t>(communicator.size()) + 7) / 8);
  if (value != found.of_root) bits[rank / 8] = static_cast<std::uint8_t>(1U << rank % 8);
  communicator.allreduce(bits, bor).wait();
  for (int each = 0; each < communicator.size(); ++each)
    if ((bits[static_cast<std::size_t>(each) / 8] >> each % 8 & 1) != 0) found.ranks.push_back(each);
  return found;
}

[[noreturn]] void refuse_counts(std::int64_t mine, Communicator& communicator) {
  const Unlike found = unlike_root(mine, communicator);
  const std::int64_t other = communicator.broadcast(mine, found.ranks.front()).wait();
  throw Error(Code::mismatch, "replicas differ: rank 0 has " + std::to_string(found.of_root) +
                                  " parameters and buffers to compare, rank " + std::to_string(found.ranks.front()) +
                                  " has " + std::to_string(other) + "; build the same network on every rank");
}

/// Averages in place. All ranks pass tensors of the same sizes.
void average_fused(const std::vector<at::Tensor>& tensors, Communicator& communicator, TensorDevice& tensor_device) {
  std::map<DType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& each : tensors) by_dtype[dtype_of(each)].push_back(each);
  for (auto& [dtype, group] : by_dtype) {
    std::int64_t total = 0;
    for (const at::Tensor& each : group) total += each.numel();
    if (total == 0) continue;
    const auto count = static_cast<std::size_t>(total);
    const std::shared_ptr<std::byte> memory = tensor_device.scratch(count * size_of(dtype));
    const at::Tensor flat = tensor_device.tensor(memory, 0, {total}, group.front().scalar_type());
    std::int64_t at = 0;
    for (const at::Tensor& each : group) {
      flat.narrow(0, at, each.numel()).view(each.sizes()).copy_(each);
      at += each.numel();
    }
    tensor_device.note_computed();
    communicator.allreduce(Buffer(memory.get(), count, dtype, tensor_device.where()), avg, tensor_device.options())
        .wait();
    at = 0;
    for (at::Tensor& each : group) {
      each.copy_(flat.narrow(0, at, each.numel()).view(each.sizes()));
      at += each.numel();
    }
    tensor_device.note_computed();
    tensor_device.wait_for_computed();  // before `memory` is released
  }
}

void broadcast_fused(std::span<const NamedTensor> state, Communicator& communicator, int root,
                     TensorDevice& tensor_device) {
  for (std::size_t next = 0; next < state.size();) {
    Piece piece;
    while (next < state.size() && piece.has_room_for(state[next].second)) piece.add(state[next++].second);
    piece.broadcast(communicator, root, tensor_device);
  }
}

}  // namespace

void synchronize_parameters(std::span<const NamedTensor> tensors, Communicator communicator, int root,
                            TensorDevice& tensor_device) {
  const at::NoGradGuard no_grad;
  broadcast_fused(tensors, communicator, root, tensor_device);
}

void synchronize_parameters(std::span<const NamedTensor> tensors, Communicator communicator, int root) {
  synchronize_parameters(tensors, communicator, root, *tensor_device_of_all(tensors, communicator));
}

void synchronize_parameters(torch::nn::Module& module, Communicator communicator, int root) {
  synchronize_parameters(named_state(module), communicator, root);
}

void synchronize_buffers(std::span<const NamedTensor> buffers, Communicator communicator, BufferPolicy policy,
                         TensorDevice& tensor_device) {
  if (policy == BufferPolicy::local) return;
  const at::NoGradGuard no_grad;
  std::vector<NamedTensor> copied(buffers.begin(), buffers.end());
  std::vector<at::Tensor> averaged;
  if (policy == BufferPolicy::average)
    std::erase_if(copied, [&](const NamedTensor& each) {
      const bool mean = each.second.is_floating_point();
      if (mean) averaged.push_back(each.second);
      return mean;
    });
  broadcast_fused(copied, communicator, 0, tensor_device);
  average_fused(averaged, communicator, tensor_device);
}

void synchronize_buffers(std::span<const NamedTensor> buffers, Communicator communicator, BufferPolicy policy) {
  synchronize_buffers(buffers, communicator, policy, *tensor_device_of_all(buffers, communicator));
}

void synchronize_buffers(torch::nn::Module& module, Communicator communicator, BufferPolicy policy) {
  synchronize_buffers(named_buffers(module), communicator, policy);
}

GradientReport average_gradients(std::span<const NamedTensor> parameters, Communicator communicator,
                                 TensorDevice& tensor_device) {
  const at::NoGradGuard no_grad;
  std::vector<std::uint8_t> present;
  for (const auto& [name, parameter] : parameters) present.push_back(parameter.grad().defined() ? 1 : 0);
  if (!present.empty()) communicator.allreduce(present, max).wait();
  GradientReport report;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    if (!present[i]) {
      report.without_gradient.push_back(name);
      continue;
    }
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    gradients.push_back(parameter.grad());
  }
  average_fused(gradients, communicator, tensor_device);
  report.averaged = gradients.size();
  return report;
}

GradientReport average_gradients(std::span<const NamedTensor> parameters, Communicator communicator) {
  return average_gradients(parameters, communicator, *tensor_device_of_all(parameters, communicator));
}

GradientReport average_gradients(torch::nn::Module& module, Communicator communicator) {
  return average_gradients(named_parameters(module), communicator);
}

void check_replicas(std::span<const NamedTensor> parameters, std::span<const NamedTensor> buffers,
                    Communicator communicator) {
  std::vector<NamedTensor> state(parameters.begin(), parameters.end());
  state.insert(state.end(), buffers.begin(), buffers.end());
  const auto count = static_cast<std::int64_t>(state.size());
  if (first_differing({count}, communicator)) refuse_counts(count, communicator);
  if (state.empty()) return;
  const std::vector<std::int64_t> mine = hashes(state);
  const std::optional<std::size_t> found = first_differing(mine, communicator);
  if (!found) return;
  throw Error(Code::mismatch,
              "replicas differ: '" + state[*found].first + "' on " +
                  ranks_text(unlike_root(mine[*found], communicator).ranks) + " is not bitwise equal to rank 0's; " +
                  (*found < parameters.size() ? "call synchronize_parameters() first, and update every replica with "
                                                "the same gradients"
                                              : "call synchronize_buffers() first, or compare parameters only"));
}

void check_replicas(const torch::nn::Module& module, Communicator communicator, Compared what) {
  check_replicas(named_parameters(module),
                 what == Compared::parameters ? std::vector<NamedTensor>() : named_buffers(module), communicator);
}

}  // namespace tutti::nn
