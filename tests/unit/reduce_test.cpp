// Folds of every dtype and op, on every instruction set that this machine has, against plain arithmetic.
#include "tutti/reduce.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "transports/core/reduce_table.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

using detail::fold_isas;

constexpr std::array all_ops = {Op::sum,  Op::avg, Op::prod, Op::min,       Op::max,
                                Op::band, Op::bor, Op::bxor, Op::premul_sum};

template <class T>
constexpr bool is_float = !std::is_integral_v<T>;
// The type in which an element is computed.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
auto bits_of(T value) {
  if constexpr (sizeof(T) == 1)
    return std::bit_cast<std::uint8_t>(value);
  else if constexpr (sizeof(T) == 2)
    return std::bit_cast<std::uint16_t>(value);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint64_t>(value);
}

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits,
              sizeof(T));  // assumes little endian
  return value;
}

// ---- The reference.

template <class T>
T reference_integer(Op op, T a, T b) {
  const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
  switch (op) {
    case Op::sum: return static_cast<T>(x + y);
    case Op::prod: return static_cast<T>(x * y);
    case Op::min: return a < b ? a : b;
    case Op::max: return a < b ? b : a;
    case Op::band: return static_cast<T>(x & y);
    case Op::bor: return static_cast<T>(x | y);
    case Op::bxor: return static_cast<T>(x ^ y);
    default: ADD_FAILURE() << name(op); return T{};
  }
}

// float results are computed in double, which is exact or rounds to the same float; double is computed in double.
template <class C>
C reference_computed(Op op, C a, C b, double divisor) {
  const double x = a, y = b;
  C folded;
  switch (op) {
    case Op::sum:
    case Op::avg:
    case Op::premul_sum: folded = static_cast<C>(x + y); break;
    case Op::prod: folded = static_cast<C>(x * y); break;
    case Op::min:
    case Op::max:
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<C>::quiet_NaN();
      if (a == b)
        folded = std::signbit(a) == (op == Op::min) ? a : b;
      else
        folded = (a < b) == (op == Op::min) ? a : b;
      break;
    default: ADD_FAILURE() << name(op); return C{};
  }
  if (divisor != 1) folded = static_cast<C>(static_cast<double>(folded) / divisor);
  return std::isnan(folded) ? std::numeric_limits<C>::quiet_NaN() : folded;
}

template <class T>
T reference(Op op, T a, T b, double divisor = 1) {
  if constexpr (is_float<T>) {
    using C = Computed<T>;
    return static_cast<T>(reference_computed<C>(op, static_cast<C>(a), static_cast<C>(b), divisor));
  } else {
    return reference_integer(op, a, b);
  }
}

// ---- Data.

template <class T>
std::vector<T> special_values() {
  if constexpr (std::is_integral_v<T>) {
    return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T{0}, T{1}, static_cast<T>(-1), T{2}, T{100}};
  } else {
    constexpr int width = static_cast<int>(sizeof(T)) * 8;
    constexpr int mantissa = std::is_same_v<T, f16> ? 10 : std::is_same_v<T, bf16> ? 7 : sizeof(T) == 4 ? 23 : 52;
    const std::uint64_t infinity = ((std::uint64_t{1} << (width - 1 - mantissa)) - 1) << mantissa;
    const std::uint64_t quiet = infinity | std::uint64_t{1} << (mantissa - 1);
    const std::uint64_t hidden_one = std::uint64_t{1} << mantissa;
    std::vector<T> values;
    for (const std::uint64_t magnitude :
         {std::uint64_t{0}, std::uint64_t{1}, hidden_one - 1, hidden_one, hidden_one + 1, infinity - 1, infinity, quiet,
          quiet | 1, infinity | 1, infinity / 2, infinity / 2 + 1, infinity / 2 & ~(hidden_one - 1)}) {
      values.push_back(from_bits<T>(magnitude));
      values.push_back(from_bits<T>(magnitude | std::uint64_t{1} << (width - 1)));
    }
    return values;
  }
}

// Every pair of special values, then random values: half of them of any bits, half of similar magnitude.
template <class T>
void fill(std::vector<T>& a, std::vector<T>& b) {
  const std::vector<T> special = special_values<T>();
  std::mt19937_64 random(20240607);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t pair = i / 2;
    if (i % 2 == 0 && pair < special.size() * special.size()) {
      a[i] = special[pair / special.size()];
      b[i] = special[pair % special.size()];
    } else if (i % 4 == 1 && is_float<T>) {
      a[i] = static_cast<T>(static_cast<float>(static_cast<std::int64_t>(random())) * 0x1p-62f);
      b[i] = static_cast<T>(static_cast<float>(static_cast<std::int64_t>(random())) * 0x1p-60f);
    } else {
      a[i] = from_bits<T>(random());
      b[i] = from_bits<T>(random());
    }
  }
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <class T>
detail::FoldKernel kernel(const detail::FoldIsa& isa, Op op) {
  return isa.table->fold[static_cast<int>(dtype_of<T>)][static_cast<int>(op)];
}

template <class T>
class ReduceTest : public testing::Test {};
using Types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, f16, bf16, float,
                             double, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(ReduceTest, Types);

TYPED_TEST(ReduceTest, MatchesTheReferenceOnEveryIsa) {
  using T = TypeParam;
  constexpr std::size_t count = 20011;
  std::vector<T> a(count), b(count), result(count);
  fill(a, b);
  for (const Op op : all_ops) {
    if (!supports(op, dtype_of<T>)) continue;
    for (const double divisor : {1.0, 3.0, 48.0}) {
      if (divisor != 1 && !is_float<T>) continue;
      for (const auto& isa : fold_isas()) {
        SCOPED_TRACE(testing::Message() << name(op) << " / " << divisor << " on " << isa.name);
        kernel<T>(isa, op)(bytes_of(result), bytes_of(a), bytes_of(b), count * sizeof(T), divisor);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(bits_of(result[i]), bits_of(reference(op, a[i], b[i], divisor)))
              << std::hex << +bits_of(a[i]) << " and " << +bits_of(b[i]);
        }
      }
    }
  }
}

TYPED_TEST(ReduceTest, TheOrderOfTheOperandsDoesNotMatter) {
  using T = TypeParam;
  constexpr std::size_t count = 5003;
  std::vector<T> a(count), b(count), ab(count), ba(count);
  fill(a, b);
  for (const Op op : all_ops) {
    if (!supports(op, dtype_of<T>)) continue;
    const Fold fold{dtype_of<T>, op};
    fold(bytes_of(ab), bytes_of(a), bytes_of(b), count * sizeof(T));
    fold(bytes_of(ba), bytes_of(b), bytes_of(a), count * sizeof(T));
    EXPECT_EQ(std::memcmp(ab.data(), ba.data(), count * sizeof(T)), 0) << name(op);
  }
}

// `into` is separate, or equals `with` or `received`; addresses are odd; no byte outside `into` may change.
TYPED_TEST(ReduceTest, AnyLengthAddressAndAliasing) {
  using T = TypeParam;
  constexpr std::size_t room = 128;
  std::vector<T> a(room), b(room);
  fill(a, b);
  for (const Op op : {Op::sum, Op::max}) {
    for (const auto& isa : fold_isas()) {
      for (std::size_t count = 0; count <= 70; ++count) {
        const std::size_t bytes = count * sizeof(T);
        for (int alias = 0; alias < 3; ++alias) {
          const std::size_t shift = count % 4;  // not aligned to the element
          std::vector<std::byte> x(bytes + 64, std::byte{0x5a}), y = x, z = x;
          std::memcpy(x.data() + shift, a.data(), bytes);
          std::memcpy(y.data() + shift + 1, b.data(), bytes);
          std::vector<std::byte>& target = alias == 0 ? z : alias == 1 ? x : y;
          std::byte* const into = target.data() + shift + (alias == 2 ? 1 : 0);
          kernel<T>(isa, op)(into, x.data() + shift, y.data() + shift + 1, bytes, 1);
          for (std::size_t i = 0; i < count; ++i) {
            T got;
            std::memcpy(static_cast<void*>(&got), into + i * sizeof(T), sizeof(T));
            ASSERT_EQ(bits_of(got), bits_of(reference(op, a[i], b[i])))
                << name(op) << " " << isa.name << " count " << count << " alias " << alias << " element " << i;
          }
          for (const std::byte* p = target.data(); p != target.data() + target.size(); ++p) {
            ASSERT_TRUE((p >= into && p < into + bytes) || *p == std::byte{0x5a}) << "count " << count;
          }
        }
      }
    }
  }
}

TYPED_TEST(ReduceTest, FoldAndScaleRefuseWhatHasNoMeaning) {
  using T = TypeParam;
  T a{}, b{};
  auto* x = reinterpret_cast<std::byte*>(&a);
  auto* y = reinterpret_cast<std::byte*>(&b);
  for (const Op op : all_ops) {
    const Fold fold{dtype_of<T>, op};
    EXPECT_EQ(fold.width(), sizeof(T));
    if (supports(op, dtype_of<T>)) {
      EXPECT_NO_THROW(fold(x, x, y, sizeof(T)));
    } else {
      EXPECT_THROW(fold(x, x, y, sizeof(T)), Error);
    }
    for (const auto& isa : fold_isas()) EXPECT_EQ(kernel<T>(isa, op) != nullptr, supports(op, dtype_of<T>));
  }
  if (is_float<T>)
    EXPECT_NO_THROW(scale(dtype_of<T>, x, y, sizeof(T), 2));
  else
    EXPECT_THROW(scale(dtype_of<T>, x, y, sizeof(T), 2), Error);
}

TYPED_TEST(ReduceTest, ScaleMultipliesAndRoundsOnce) {
  using T = TypeParam;
  if constexpr (is_float<T>) {
    using C = Computed<T>;
    constexpr std::size_t count = 3001;
    std::vector<T> from(count), unused(count), into(count);
    fill(from, unused);
    for (const double factor : {0.1, 1.0, -3.0, 1.0 / 3, 1e30}) {
      for (const auto& isa : fold_isas()) {
        const auto scale_on_isa = isa.table->scale[static_cast<int>(dtype_of<T>)];
        const auto check = [&] {
          for (std::size_t i = 0; i < count; ++i) {
            const C exact = reference_computed<C>(Op::prod, static_cast<C>(from[i]), static_cast<C>(factor), 1);
            ASSERT_EQ(bits_of(into[i]), bits_of(static_cast<T>(exact))) << isa.name << " times " << factor;
          }
        };
        scale_on_isa(bytes_of(into), bytes_of(from), count * sizeof(T), factor);
        check();
        into = from;
        scale_on_isa(bytes_of(into), bytes_of(into), count * sizeof(T), factor);
        check();
      }
    }
  }
}

TEST(ReduceIsaTest, TheBestComesFirstAndTheBaselineIsAlwaysThere) {
  ASSERT_FALSE(fold_isas().empty());
  EXPECT_EQ(fold_isas().front().name, fold_isa());
  EXPECT_EQ(fold_isas().back().name, "baseline");
  for (const auto& isa : fold_isas()) std::printf("instruction set tested: %s\n", isa.name.data());
}

TEST(ReduceIntegersTest, Wrap) {
  std::int32_t a[] = {INT32_MAX, INT32_MIN, 65536}, b[] = {1, -1, 65536};
  const auto fold = [&](Op op) {
    std::array<std::int32_t, 3> result;
    Fold{DType::i32, op}(reinterpret_cast<std::byte*>(result.data()), reinterpret_cast<std::byte*>(a),
                         reinterpret_cast<std::byte*>(b), sizeof(a));
    return result;
  };
  EXPECT_EQ(fold(Op::sum), (std::array<std::int32_t, 3>{INT32_MIN, INT32_MAX, 131072}));
  EXPECT_EQ(fold(Op::prod), (std::array<std::int32_t, 3>{INT32_MAX, INT32_MIN, 0}));
}

// ---- The 16-bit types.

// Returns the value of a binary format with `mantissa` bits, by its definition.
double value_of(std::uint16_t bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7fff) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  const int highest = 0x7fff >> mantissa;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == highest) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

template <class H>
class HalfTest : public testing::Test {
 protected:
  static constexpr int mantissa = std::is_same_v<H, f16> ? 10 : 7;
  static constexpr int bias = std::is_same_v<H, f16> ? 15 : 127;
  static constexpr std::uint16_t infinity = 0x7fff >> mantissa << mantissa;
  static H make(int bits) { return from_bits<H>(static_cast<std::uint64_t>(bits)); }
};
using Halves = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryValueWidensAndComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = this->make(bits);
    const float wide = static_cast<float>(half);
    const double expected = value_of(static_cast<std::uint16_t>(bits), this->mantissa, this->bias);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide));
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide))));
    } else {
      ASSERT_EQ(wide, expected) << bits;
      ASSERT_EQ(std::signbit(wide), std::signbit(expected)) << bits;
      ASSERT_EQ(TypeParam(wide), half) << bits;
    }
  }
}

// The midpoint of two neighbours rounds to the even one; a value next to it rounds to the nearer one.
TYPED_TEST(HalfTest, RoundsToNearestEven) {
  for (int bits = 0; bits + 1 < this->infinity; ++bits) {
    const auto below = this->make(bits), above = this->make(bits + 1);
    const float middle =
        static_cast<float>((double{static_cast<float>(below)} + double{static_cast<float>(above)}) / 2);
    ASSERT_EQ(TypeParam(middle), bits % 2 == 0 ? below : above) << bits;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0f)), below) << bits;
    ASSERT_EQ(TypeParam(std::nextafter(middle, HUGE_VALF)), above) << bits;
    ASSERT_EQ(TypeParam(-middle).bits, (bits % 2 == 0 ? below : above).bits | 0x8000) << bits;
  }
  const float largest = static_cast<float>(this->make(this->infinity - 1));
  const float beyond = largest + (largest - static_cast<float>(this->make(this->infinity - 2))) / 2;
  EXPECT_EQ(TypeParam(beyond).bits, this->infinity);
  EXPECT_EQ(TypeParam(std::nextafter(beyond, 0.0f)).bits, this->infinity - 1);
  EXPECT_EQ(TypeParam(HUGE_VALF).bits, this->infinity);
}

// Adding -0 changes no value, so every kernel's conversions must give every pattern back.
TYPED_TEST(HalfTest, EveryValueSurvivesTheKernels) {
  std::vector<TypeParam> values(65536), zeros(65536, this->make(0x8000)), result(65536);
  for (int bits = 0; bits < 65536; ++bits) values[static_cast<std::size_t>(bits)] = this->make(bits);
  for (const auto& isa : fold_isas()) {
    kernel<TypeParam>(isa, Op::sum)(bytes_of(result), bytes_of(values), bytes_of(zeros), 65536 * 2, 1);
    for (int bits = 0; bits < 65536; ++bits) {
      const bool nan = (bits & 0x7fff) > this->infinity;
      const int expected = nan ? this->infinity | 1 << (this->mantissa - 1) : bits;
      ASSERT_EQ(result[static_cast<std::size_t>(bits)].bits, expected) << isa.name << " " << bits;
    }
  }
}

// The products reach every case of rounding, including results that are subnormal or zero.
TYPED_TEST(HalfTest, EveryValueTimesSomeRoundsAsTheReference) {
  std::vector<TypeParam> values(65536), times(65536), result(65536);
  for (int bits = 0; bits < 65536; ++bits) values[static_cast<std::size_t>(bits)] = this->make(bits);
  for (const float factor : {0.5f, 1.0078125f, 1.5f, 3.0f, 0x1p-10f, 0x1.8p-5f, 0x1.fcp+3f}) {
    std::fill(times.begin(), times.end(), TypeParam(factor));
    for (const auto& isa : fold_isas()) {
      kernel<TypeParam>(isa, Op::prod)(bytes_of(result), bytes_of(values), bytes_of(times), 65536 * 2, 1);
      for (std::size_t i = 0; i < 65536; ++i) {
        ASSERT_EQ(result[i], reference(Op::prod, values[i], times[i])) << isa.name << " " << i << " * " << factor;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
