// Centre: a worker's parameters of one element type, and what it knows of the masters'.
#pragma once

#include <ATen/Functions.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/tutti_parameter_server.hpp"
#include "engine/strategies/flat.hpp"
#include "nn/tensor.hpp"

namespace tutti::engine::exchange {

inline ConstBuffer read_only(const at::Tensor& tensor) {
  const Buffer all = nn::buffer(tensor);
  return {all.data, all.count, all.dtype};
}

/// Parameters of one element type: the worker's own, and what it knows of the centre.
class Centre {
 public:
  Centre(std::vector<nn::NamedTensor> tensors, Communicator& world, const nn::Site& site)
      : flat(std::move(tensors), world, site),
        centre(at::empty_like(flat.all())),
        base(at::empty_like(centre)),
        sent(at::empty_like(centre)) {}

  Flat flat;                       // views of the parameters, and memory to read them into
  at::Tensor centre, base;         // as a reply has it; as it was applied last
  at::Tensor sent;                 // what travels to the servers
  at::Tensor sum;                  // of gradients
  at::Tensor own;                  // the parameters while the centre is judged
  at::Tensor momentum, previous;   // of gem
  std::optional<Parameters> kept;  // of the worker's rank 0
  std::optional<Parameters> top;   // and of groups: the top's
  Request pushed, fetched;         // in flight
  std::uint64_t seen = 0;          // the version of `base`

  // What a checkpoint has of it, for element type `index`; not all strategies have all of it.
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
  static constexpr std::pair<const char*, at::Tensor Centre::*> members[] = {
      {"own/", &Centre::own}, {"centre/", &Centre::centre},     {"base/", &Centre::base},
      {"sum/", &Centre::sum}, {"momentum/", &Centre::momentum}, {"previous/", &Centre::previous}};
};

}  // namespace tutti::engine::exchange
