#include "tests/support/reference.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tutti::testing {
namespace {

template <class T>
T load(const std::byte* data, std::size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof value);
  return value;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f32: return std::numeric_limits<float>::epsilon();
    default: return std::numeric_limits<double>::epsilon();
  }
}

// Wraps the value as the dtype's arithmetic does; a u64 keeps its bits.
std::int64_t wrap(DType dtype, std::uint64_t value) {
  switch (dtype) {
    case DType::i8: return static_cast<std::int8_t>(value);
    case DType::u8: return static_cast<std::uint8_t>(value);
    case DType::i16: return static_cast<std::int16_t>(value);
    case DType::i32: return static_cast<std::int32_t>(value);
    case DType::u16: return static_cast<std::uint16_t>(value);
    case DType::u32: return static_cast<std::uint32_t>(value);
    default: return static_cast<std::int64_t>(value);
  }
}

std::int64_t fold(DType dtype, Op op, std::int64_t a, std::int64_t b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  const bool less = dtype == DType::u64 ? x < y : a < b;
  switch (op) {
    case Op::sum: return wrap(dtype, x + y);
    case Op::prod: return wrap(dtype, x * y);
    case Op::min: return less ? a : b;
    case Op::max: return less ? b : a;
    case Op::band: return a & b;
    case Op::bor: return a | b;
    default: return a ^ b;
  }
}

double fold(Op op, double a, double b) {
  switch (op) {
    case Op::prod: return a * b;
    case Op::min: return a < b ? a : b;
    case Op::max: return a < b ? b : a;
    default: return a + b;
  }
}

std::string wrong(std::size_t i, double is, double should, double within) {
  return "element " + std::to_string(i) + " is " + std::to_string(is) + " but should be " + std::to_string(should) +
         " +- " + std::to_string(within);
}

}  // namespace

std::vector<std::byte> random_data(DType dtype, std::size_t count, std::uint64_t seed) {
  std::vector<std::byte> data(count * size_of(dtype));
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = data.data() + i * size_of(dtype);
    const std::uint64_t bits = random();
    const double value =
        (static_cast<double>(bits >> 12) * 0x1p-51 - 1.0) * static_cast<double>(1 << (bits & 3)) * 0.25;
    switch (dtype) {
      case DType::f16: {
        const f16 x(static_cast<float>(value));
        std::memcpy(at, &x, sizeof x);
        break;
      }
      case DType::bf16: {
        const bf16 x(static_cast<float>(value));
        std::memcpy(at, &x, sizeof x);
        break;
      }
      case DType::f32: {
        const auto x = static_cast<float>(value);
        std::memcpy(at, &x, sizeof x);
        break;
      }
      case DType::f64: std::memcpy(at, &value, sizeof value); break;
      default: std::memcpy(at, &bits, size_of(dtype));
    }
  }
  return data;
}

double real_at(DType dtype, const std::byte* data, std::size_t i) {
  switch (dtype) {
    case DType::f16: return static_cast<float>(load<f16>(data, i));
    case DType::bf16: return static_cast<float>(load<bf16>(data, i));
    case DType::f32: return load<float>(data, i);
    case DType::f64: return load<double>(data, i);
    default: return static_cast<double>(integer_at(dtype, data, i));
  }
}

std::int64_t integer_at(DType dtype, const std::byte* data, std::size_t i) {
  switch (dtype) {
    case DType::i8: return load<std::int8_t>(data, i);
    case DType::u8: return load<std::uint8_t>(data, i);
    case DType::i16: return load<std::int16_t>(data, i);
    case DType::i32: return load<std::int32_t>(data, i);
    case DType::u16: return load<std::uint16_t>(data, i);
    case DType::u32: return load<std::uint32_t>(data, i);
    default: return load<std::int64_t>(data, i);
  }
}

std::string check_fold(DType dtype, Reduction op, const std::vector<std::vector<std::byte>>& inputs, std::size_t offset,
                       const std::byte* result, std::size_t count) {
  const double p = static_cast<double>(inputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (is_integer(dtype)) {
      std::int64_t value = integer_at(dtype, inputs[0].data(), offset + i);
      for (std::size_t r = 1; r < inputs.size(); ++r)
        value = fold(dtype, op.op, value, integer_at(dtype, inputs[r].data(), offset + i));
      const std::int64_t is = integer_at(dtype, result, i);
      if (is != value) return wrong(i, static_cast<double>(is), static_cast<double>(value), 0);
      continue;
    }
    const double factor = op.op == Op::premul_sum ? op.factor : 1.0;
    double value = 0, magnitude = 0;
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      const double x = real_at(dtype, inputs[r].data(), offset + i) * factor;
      value = r == 0 ? x : fold(op.op, value, x);
      magnitude += std::fabs(x);
    }
    if (op.op == Op::avg) value /= p, magnitude /= p;
    double within = p * epsilon(dtype) * (op.op == Op::prod ? std::fabs(value) : magnitude);
    if (op.op == Op::min || op.op == Op::max) within = 0;
    if (dtype == DType::f16) within += p * 0x1p-24;  // for subnormals
    const double is = real_at(dtype, result, i);
    if (!(std::fabs(is - value) <= within)) return wrong(i, is, value, within);
  }
  return {};
}

std::uint64_t checksum(const std::byte* data, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) seed = (seed ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ull;
  return seed;
}

}  // namespace tutti::testing
