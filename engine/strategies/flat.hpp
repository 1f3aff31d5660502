// Flat: a contiguous buffer for several tensors, so that they are exchanged together.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "nn/module.hpp"
#include "nn/tensor_device.hpp"
#include "tutti/buffer.hpp"
#include "tutti/communicator.hpp"

namespace tutti::engine::exchange {

/// Several tensors of one element type, and a contiguous buffer for them. Keeps the tensors alive.
class Flat {
 public:
  /// Allocates the buffer with the communicator. Collective.
  Flat(std::vector<nn::NamedTensor> tensors, Communicator& world, const nn::TensorDevice& tensor_device);

  void take() { read(all_); }                              ///< copies the tensors to the buffer
  void give() const { write(all_); }                       ///< copies the buffer to the tensors
  void read(const at::Tensor& into) const;                 ///< copies the tensors to `into`, which is like all()
  void write(const at::Tensor& from) const;                ///< copies `from`, which is like all(), to the tensors
  const at::Tensor& all() const noexcept { return all_; }  ///< the buffer, of one dimension
  const std::vector<nn::NamedTensor>& tensors() const noexcept { return tensors_; }
  /// Returns views of `of`, which is like all(), with the tensors' names and shapes.
  std::vector<nn::NamedTensor> views(const at::Tensor& of) const;
  /// The views of all().
  const std::vector<nn::NamedTensor>& parts() const noexcept { return parts_; }
  Buffer buffer() const noexcept { return buffer_; }

 private:
  std::vector<nn::NamedTensor> tensors_, parts_;
  at::Tensor all_;
  Buffer buffer_;
};

/// Returns the parameters that require a gradient.
std::vector<nn::NamedTensor> trained_of(std::vector<nn::NamedTensor> parameters);

/// Groups the tensors by element type.
std::vector<std::vector<nn::NamedTensor>> by_type(const std::vector<nn::NamedTensor>& tensors);

}  // namespace tutti::engine::exchange
