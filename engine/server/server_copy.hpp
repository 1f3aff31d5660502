// ServerCopy: a worker's parameters of one element type, and its copies of the masters' parameters.
#pragma once

#include <ATen/Functions.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/strategies/flat.hpp"
#include "nn/tensor.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::engine::exchange {

inline ConstBuffer read_only(const at::Tensor& tensor) {
  const Buffer all = nn::buffer(tensor);
  return {all.data, all.count, all.dtype};
}

/// A worker's tensors of one element type. The masters' parameters are called the centre.
class ServerCopy {
 public:
  ServerCopy(std::vector<nn::NamedTensor> tensors, Communicator& world, const nn::TensorDevice& tensor_device)
      : flat(std::move(tensors), world, tensor_device),
        centre(at::empty_like(flat.all())),
        base(at::empty_like(centre)),
        sent(at::empty_like(centre)) {}

  Flat flat;                       // the worker's parameters, and a buffer that they are read into
  at::Tensor centre, base;         // the last reply; the b of server_worker.hpp
  at::Tensor sent;                 // send buffer of pushes
  at::Tensor sum;                  // gradients: their sum; elastic with prefetch, and gem: the pushed change
  at::Tensor own;                  // the worker's parameters while the network contains the centre
  at::Tensor momentum, previous;   // used by gem
  std::optional<Parameters> kept;  // the masters' buffer; only on rank 0 of the worker
  std::optional<Parameters> top;   // with sub-masters: the top master's buffer; only on rank 0
  Request pushed, fetched;         // in flight
  std::uint64_t seen = 0;          // the latest version received

  // Returns the tensors of a checkpoint for element type number `index`, without those that the strategy does not use.
  std::vector<nn::NamedTensor> remembered(std::size_t index) const {
    std::vector<nn::NamedTensor> found;
    for (const auto& [name, member] : members)
      if ((this->*member).defined()) found.emplace_back(name + std::to_string(index), this->*member);
    return found;
  }
  void recall(const std::vector<nn::NamedTensor>& state, std::size_t index) {
    for (const auto& [name, member] : members)
      for (const auto& [saved, tensor] : state)
        if (saved == name + std::to_string(index)) this->*member = tensor.to(at::kCPU, false, true);
  }

 private:
  static constexpr std::pair<const char*, at::Tensor ServerCopy::*> members[] = {
      {"own/", &ServerCopy::own}, {"centre/", &ServerCopy::centre},     {"base/", &ServerCopy::base},
      {"sum/", &ServerCopy::sum}, {"momentum/", &ServerCopy::momentum}, {"previous/", &ServerCopy::previous}};
};

}  // namespace tutti::engine::exchange
