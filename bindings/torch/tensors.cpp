// Conversion of tensors to memory blocks, element types and operators.
#include "bindings/torch/tensors.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "bindings/torch/errors.hpp"

namespace tutti::torch_binding {
namespace {

using Type = at::ScalarType;
using Operator = c10d::ReduceOp;

struct Row {
  Type type;
  DType dtype;
  std::size_t each = 1;
};

constexpr Row rows[] = {{Type::Bool, DType::u8},
                        {Type::Byte, DType::u8},
                        {Type::Char, DType::i8},
                        {Type::Short, DType::i16},
                        {Type::Int, DType::i32},
                        {Type::Long, DType::i64},
                        {Type::UInt16, DType::u16},
                        {Type::UInt32, DType::u32},
                        {Type::UInt64, DType::u64},
                        {Type::Half, DType::f16},
                        {Type::BFloat16, DType::bf16},
                        {Type::Float, DType::f32},
                        {Type::Double, DType::f64},
                        {Type::ComplexHalf, DType::f16, 2},
                        {Type::ComplexFloat, DType::f32, 2},
                        {Type::ComplexDouble, DType::f64, 2}};

const char* operator_name(Operator::RedOpType op) {
  constexpr const char* names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  return op < std::size(names) ? names[op] : "UNUSED";
}

/// The operator for bool elements, which are bytes of 0 or 1.
Reduction on_bool(Operator::RedOpType op, std::string_view call) {
  switch (op) {
    case Operator::SUM:
    case Operator::MAX:
    case Operator::BOR: return bor;
    case Operator::PRODUCT:
    case Operator::MIN:
    case Operator::BAND: return band;
    case Operator::BXOR: return bxor;
    default: refuse(call, std::string("Cannot use ReduceOp.") + operator_name(op) + " with Bool");
  }
}

double factor_of(const Operator& op, std::string_view call) {
  const auto* supplement = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  if (supplement == nullptr) refuse(call, "ReduceOp.PREMUL_SUM comes without its factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item<double>() : supplement->double_factor;
}

Reduction reduction_of(const Operator& op, std::string_view call) {
  switch (static_cast<Operator::RedOpType>(op)) {
    case Operator::SUM: return sum;
    case Operator::AVG: return avg;
    case Operator::PRODUCT: return prod;
    case Operator::MIN: return min;
    case Operator::MAX: return max;
    case Operator::BAND: return band;
    case Operator::BOR: return bor;
    case Operator::BXOR: return bxor;
    case Operator::PREMUL_SUM: return premul_sum(factor_of(op, call));
    default: refuse(call, "unknown ReduceOp");
  }
}

bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

std::byte* address(const at::Tensor& tensor, bool write) {
  void* const data = write ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
  return static_cast<std::byte*>(data);
}

bool repeats(const at::Tensor& tensor, std::int64_t dimension) {
  return tensor.stride(dimension) == 0 && tensor.size(dimension) > 1;
}

/// True if elements with different indices share memory, as after expand().
bool is_expanded(const at::Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    if (repeats(tensor, i)) return true;
  return false;
}

/// The elements of `tensor` without repetitions: one for each memory element of `expanded`, whose shape it has.
at::Tensor without_repeats(at::Tensor tensor, const at::Tensor& expanded) {
  for (std::int64_t i = 0; i < expanded.dim(); ++i)
    if (repeats(expanded, i)) tensor = tensor.narrow(i, 0, 1);
  return tensor;
}

/// True if the tensors are adjacent in one storage.
bool is_one_block(const Tensors& tensors) {
  const std::byte* next = nullptr;
  const at::Tensor* first = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor)) return false;
    if (tensor.numel() == 0) continue;
    const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
    if (first == nullptr) first = &tensor;
    if (next != nullptr && (data != next || !tensor.storage().is_alias_of(first->storage()))) return false;
    next = data + tensor.nbytes();
  }
  return true;
}

}  // namespace

Elements elements_of(at::ScalarType type, const c10d::ReduceOp& op, std::string_view call) {
  const auto which = static_cast<Operator::RedOpType>(op);
  for (const Row& row : rows) {
    if (row.type != type) continue;
    if (type == Type::Bool) return {row.dtype, 1, on_bool(which, call)};
    const Reduction reduction = reduction_of(op, call);
    const bool is_linear = which == Operator::SUM || which == Operator::AVG || which == Operator::PREMUL_SUM;
    if (row.each == 2 && !is_linear)
      refuse(call, std::string("ReduceOp.") + operator_name(which) + " does not support complex tensors");
    if (!supports(reduction.op, row.dtype))
      refuse(call, std::string("Cannot use ReduceOp.") + operator_name(which) + " with " +
                       (is_integer(row.dtype) ? "integral dtype " : "non-integral dtype ") + c10::toString(type));
    return {row.dtype, row.each, reduction};
  }
  refuse(call, std::string("cannot reduce elements of type ") + c10::toString(type));
}

Block::Block(const Tensors& tensors, bool read, bool write) : tensors_(tensors) {
  if (tensors.empty()) return;
  if (!read && std::ranges::any_of(tensors, is_expanded))
    refuse("output tensor", "several of its elements are one in memory, as after expand(); pass one of its own memory");
  const at::Tensor& one = tensors.front();
  device_ = one.is_cuda() ? Device{Device::Kind::cuda, one.get_device()} : Device{};
  for (const at::Tensor& tensor : tensors) bytes_ += tensor.nbytes();
  if (is_one_block(tensors)) {
    for (const at::Tensor& tensor : tensors)
      if (data_ == nullptr && tensor.numel() > 0) data_ = address(tensor, write);
    return;
  }
  const at::AutoDispatchBelowAutograd guard;
  packed_ = at::empty({static_cast<std::int64_t>(bytes_ / one.itemsize())},
                      at::TensorOptions().dtype(one.scalar_type()).device(one.device()));
  data_ = address(packed_, true);
  if (read) copy(false);
}

Block Block::reading(const Tensors& tensors) { return {tensors, true, false}; }
Block Block::writing(const Tensors& tensors) { return {tensors, false, true}; }
Block Block::updating(const Tensors& tensors) { return {tensors, true, true}; }

void Block::copy(bool out) const {
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors_) {
    const at::Tensor piece = packed_.narrow(0, at, tensor.numel()).view(tensor.sizes());
    at::Tensor other = tensor;
    if (out)
      without_repeats(other, tensor).copy_(without_repeats(piece, tensor));
    else
      piece.copy_(other);
    at += tensor.numel();
  }
}

void Block::write_back() const {
  if (!is_packed()) return;
  const at::AutoDispatchBelowAutograd guard;
  copy(true);
}

Buffer Block::bytes() const noexcept { return {data_, bytes_, DType::u8, device_}; }

Buffer Block::elements(const Elements& elements) const noexcept {
  return {data_, bytes_ / size_of(elements.dtype), elements.dtype, device_};
}

}  // namespace tutti::torch_binding
