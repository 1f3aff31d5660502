// Tensors as the library sees them: blocks of memory, element types, operators.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string_view>
#include <vector>

#include "transports/core/buffer.hpp"
#include "transports/core/reduce.hpp"

namespace tutti::torch_binding {

using Tensors = std::vector<at::Tensor>;

/// What a tensor's elements are in a reduction: bool is u8 of 0 and 1, complex is twice as many reals.
struct Elements {
  DType dtype;
  std::size_t each;  ///< of these make one of the tensor's
  Reduction op;
};

/// Throws RuntimeError where the operator has no meaning for the type.
Elements elements_of(at::ScalarType type, const c10d::ReduceOp& op, std::string_view call);

/// One or several tensors of one type and device, one after the other, as one block of memory: their own where they
/// are that already, else a packed one.
class Block {
 public:
  Block() = default;
  /// What is in the tensors; they are only read.
  static Block reading(const Tensors& tensors);
  /// For results, which write_back() takes to the tensors.
  static Block writing(const Tensors& tensors);
  /// Both.
  static Block updating(const Tensors& tensors);
  static Block reading(const at::Tensor& tensor) { return reading(Tensors{tensor}); }
  static Block writing(const at::Tensor& tensor) { return writing(Tensors{tensor}); }
  static Block updating(const at::Tensor& tensor) { return updating(Tensors{tensor}); }

  Buffer bytes() const noexcept;
  Buffer elements(const Elements& elements) const noexcept;
  bool is_packed() const noexcept { return packed_.defined(); }
  /// Copies from the packed block to the tensors; nothing where there is none.
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

/// "Float", "Long", as torch's messages name types.
inline std::string type_name(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

}  // namespace tutti::torch_binding
