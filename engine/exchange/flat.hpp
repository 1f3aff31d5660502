// Flat: tensors one after the other in one piece of memory, so that they travel together.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "nn/site.hpp"
#include "transports/core/buffer.hpp"

namespace tutti::engine::exchange {

/// A copy of tensors of one element type, which are never freed before it.
class Flat {
 public:
  /// Memory of the communicator's: collective.
  Flat(std::vector<at::Tensor> tensors, Communicator& world, const nn::Site& site);

  void take();                                             ///< copies from the tensors
  void give() const;                                       ///< and back
  const at::Tensor& all() const noexcept { return all_; }  ///< of one dimension
  Buffer buffer() const noexcept { return buffer_; }

 private:
  std::vector<at::Tensor> tensors_, parts_;
  at::Tensor all_;
  Buffer buffer_;
};

/// One for each element type among the tensors. Collective.
std::vector<Flat> flats_of(const std::vector<at::Tensor>& tensors, Communicator& world, const nn::Site& site);

}  // namespace tutti::engine::exchange
