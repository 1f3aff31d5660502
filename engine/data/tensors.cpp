#include "engine/data/tensors.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "tutti/status.hpp"

namespace tutti::engine {

bool has_tensors(DType dtype) noexcept { return dtype != DType::u16 && dtype != DType::u32 && dtype != DType::u64; }

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::i8: return at::kChar;
    case DType::u8: return at::kByte;
    case DType::i16: return at::kShort;
    case DType::i32: return at::kInt;
    case DType::i64: return at::kLong;
    case DType::f16: return at::kHalf;
    case DType::bf16: return at::kBFloat16;
    case DType::f32: return at::kFloat;
    case DType::f64: return at::kDouble;
    case DType::u16:
    case DType::u32:
    case DType::u64: break;
  }
  throw Error(Code::invalid, "LibTorch has no tensors of " + std::string(name(dtype)) +
                                 ": convert the array to a signed type that is wide enough");
}

at::Tensor to_tensor(const Array& array) {
  const auto options = at::TensorOptions(scalar_type(array.dtype()));
  if (array.count() == 0) return at::empty(array.shape(), options);
  void* const memory = const_cast<std::byte*>(array.bytes().data());
  return at::from_blob(
      memory, array.shape(), [owner = array.memory()](void*) {}, options);
}

DType array_dtype(const at::Tensor& tensor) {
  for (int i = 0; i < dtype_count; ++i)
    if (const auto dtype = static_cast<DType>(i); has_tensors(dtype) && scalar_type(dtype) == tensor.scalar_type())
      return dtype;
  throw Error(Code::invalid, std::string("an array has no elements of type ") + at::toString(tensor.scalar_type()) +
                                 ": convert the tensor first");
}

Array to_array(const at::Tensor& tensor) {
  const at::Tensor here = tensor.detach().to(at::kCPU).contiguous();
  const DType dtype = array_dtype(here);
  const auto owner = std::make_shared<at::Tensor>(here);
  return Array(dtype, here.sizes().vec(), {owner, static_cast<const std::byte*>(here.data_ptr())});
}

}  // namespace tutti::engine
