// Maps LibTorch's element types to DType.
#include "nn/tensor.hpp"

#include <string>

#include "tutti/status.hpp"

namespace tutti::nn {

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return DType::f32;
    case at::kDouble: return DType::f64;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kChar: return DType::i8;
    case at::kByte: return DType::u8;
    case at::kShort: return DType::i16;
    case at::kInt: return DType::i32;
    case at::kLong: return DType::i64;
    default:
      throw Error(Code::unsupported, std::string("tensors of ") + c10::toString(tensor.scalar_type()) +
                                         " cannot be reduced: convert them first");
  }
}

Buffer buffer(const at::Tensor& tensor) {
  if ((!tensor.is_cpu() && !tensor.is_cuda()) || !tensor.is_contiguous())
    throw Error(Code::invalid,
                "only contiguous tensors of the CPU or of CUDA can be lent to a collective: call .contiguous(), or "
                ".cpu().contiguous(), first");
  const Device where = tensor.is_cuda() ? Device{Device::Kind::cuda, tensor.device().index()} : Device{};
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), dtype_of(tensor), where};
}

}  // namespace tutti::nn
