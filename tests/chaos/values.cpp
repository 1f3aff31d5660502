#include "tests/chaos/values.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

namespace tutti::testing {
namespace {

bool is_unsigned(DType dtype) {
  return dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
}

// An integer of at most 11 bits.
std::uint16_t half_of(std::int64_t value) {
  if (value == 0) return 0;
  const auto size = static_cast<std::uint32_t>(std::abs(value));
  const int exponent = std::bit_width(size) - 1;
  const std::uint32_t sign = value < 0 ? 0x8000u : 0u;
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(exponent + 15) << 10 |
                                    ((size << (10 - exponent)) & 0x3ffu));
}

template <class T>
void store(std::byte* data, std::size_t i, T value) {
  std::memcpy(data + i * sizeof value, &value, sizeof value);
}

std::int64_t fold_two(Op op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Op::prod: return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::band: return a & b;
    case Op::bor: return a | b;
    case Op::bxor: return a ^ b;
    default: return a + b;
  }
}

}  // namespace

std::int64_t value_of(const CallPlan& plan, int rank, std::size_t i) {
  const std::uint64_t drawn =
      Dice::mixed(plan.seed + (i + 1) * Dice::step + static_cast<std::uint64_t>(rank) * 0xd1342543de82ef95u);
  if (plan.op.op == Op::prod) {
    static constexpr std::int64_t factors[] = {1, -1, 2, 1};
    return is_unsigned(plan.dtype) ? 1 + static_cast<std::int64_t>(drawn % 3) : factors[drawn % 4];
  }
  if (is_unsigned(plan.dtype)) return static_cast<std::int64_t>(drawn % 200);
  const bool is_real =
      plan.dtype == DType::f16 || plan.dtype == DType::bf16 || plan.dtype == DType::f32 || plan.dtype == DType::f64;
  return is_real ? static_cast<std::int64_t>(drawn % 17) - 8 : static_cast<std::int64_t>(drawn % 201) - 100;
}

double folded(const CallPlan& plan, int ranks, std::size_t i) {
  std::int64_t result = value_of(plan, 0, i);
  for (int rank = 1; rank < ranks; ++rank) result = fold_two(plan.op.op, result, value_of(plan, rank, i));
  if (plan.op.op == Op::avg) return static_cast<double>(result) / ranks;
  return static_cast<double>(plan.op.op == Op::premul_sum ? 2 * result : result);
}

void put(DType dtype, std::byte* data, std::size_t i, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::i8:
    case DType::u8: return store(data, i, static_cast<std::uint8_t>(whole));
    case DType::i16:
    case DType::u16: return store(data, i, static_cast<std::uint16_t>(whole));
    case DType::i32:
    case DType::u32: return store(data, i, static_cast<std::uint32_t>(whole));
    case DType::i64:
    case DType::u64: return store(data, i, static_cast<std::uint64_t>(whole));
    case DType::f16: return store(data, i, half_of(whole));
    case DType::bf16:
      return store(data, i, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DType::f32: return store(data, i, static_cast<float>(value));
    case DType::f64: return store(data, i, value);
  }
}

std::vector<std::byte> input_of(const CallPlan& plan, int rank, std::size_t first, std::size_t count) {
  std::vector<std::byte> data(count * size_of(plan.dtype));
  for (std::size_t i = 0; i < count; ++i)
    put(plan.dtype, data.data(), i, static_cast<double>(value_of(plan, rank, first + i)));
  return data;
}

}  // namespace tutti::testing
