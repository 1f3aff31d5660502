// Conversion of tensors to memory blocks, element types and operators.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string_view>
#include <vector>

#include "tutti/buffer.hpp"
#include "tutti/reduce.hpp"

namespace tutti::torch_binding {

using Tensors = std::vector<at::Tensor>;

/// How a tensor's elements are represented in a reduction: bool is u8 of 0 and 1, a complex number is two reals.
struct Elements {
  DType dtype;
  std::size_t each;  ///< number of `dtype` elements per element of the tensor
  Reduction op;
};

/// Throws RuntimeError if the operator is not defined for the type.
Elements elements_of(at::ScalarType type, const c10d::ReduceOp& op, std::string_view call);

/// One or several tensors of the same type and device, as one block of contiguous memory: the tensors' own if they are
/// contiguous and adjacent, else a packed copy.
class Block {
 public:
  Block() = default;
  /// A block that is read.
  static Block reading(const Tensors& tensors);
  /// A block that is written; write_back() copies the result to the tensors. Throws RuntimeError if elements of one
  /// tensor share memory, as after expand().
  static Block writing(const Tensors& tensors);
  /// A block that is read and written. Elements that share memory are read as often as they appear, and written once.
  /// The tensors of all ranks must be expanded in the same way.
  static Block updating(const Tensors& tensors);
  static Block reading(const at::Tensor& tensor) { return reading(Tensors{tensor}); }
  static Block writing(const at::Tensor& tensor) { return writing(Tensors{tensor}); }
  static Block updating(const at::Tensor& tensor) { return updating(Tensors{tensor}); }

  Buffer bytes() const noexcept;
  Buffer elements(const Elements& elements) const noexcept;
  bool is_packed() const noexcept { return packed_.defined(); }
  /// Copies the packed copy to the tensors; does nothing if there is no copy.
  void write_back() const;
  const at::Tensor& packed() const noexcept { return packed_; }

 private:
  Block(const Tensors& tensors, bool read, bool write);
  void copy(bool out) const;

  Tensors tensors_;
  at::Tensor packed_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Device device_;
};

/// The type's name in torch's messages: "Float", "Long".
inline std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

}  // namespace tutti::torch_binding
