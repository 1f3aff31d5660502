// Flat: tensors one after the other in one piece of memory, so that they travel together.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "nn/module.hpp"
#include "nn/site.hpp"
#include "transports/core/buffer.hpp"

namespace tutti::engine::exchange {

/// Memory for tensors of one element type, which are never freed before it.
class Flat {
 public:
  /// Memory of the communicator's: collective.
  Flat(std::vector<nn::NamedTensor> tensors, Communicator& world, const nn::Site& site);

  void take() { read(all_); }                              ///< copies from the tensors
  void give() const { write(all_); }                       ///< and back
  void read(const at::Tensor& into) const;                 ///< the tensors' values, into as many numbers elsewhere
  void write(const at::Tensor& from) const;                ///< and back
  const at::Tensor& all() const noexcept { return all_; }  ///< of one dimension
  const std::vector<nn::NamedTensor>& tensors() const noexcept { return tensors_; }
  /// The parts of `of`, which has as many numbers as all(), in the tensors' shapes.
  std::vector<nn::NamedTensor> views(const at::Tensor& of) const;
  /// Those of all(), by the tensors' names.
  const std::vector<nn::NamedTensor>& parts() const noexcept { return parts_; }
  Buffer buffer() const noexcept { return buffer_; }

 private:
  std::vector<nn::NamedTensor> tensors_, parts_;
  at::Tensor all_;
  Buffer buffer_;
};

/// Those that want a gradient.
std::vector<nn::NamedTensor> trained_of(std::vector<nn::NamedTensor> parameters);

/// The tensors of each element type.
std::vector<std::vector<nn::NamedTensor>> by_type(const std::vector<nn::NamedTensor>& tensors);

}  // namespace tutti::engine::exchange
