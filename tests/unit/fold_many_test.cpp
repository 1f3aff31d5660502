// Folding (reducing) several sources in one pass, compared with folding them one after the other, bit for bit, on every
// instruction set. f16 and bf16 are folded one after the other as float, and rounded once.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "transports/core/reduce_table.hpp"
#include "tutti/dtype.hpp"
#include "tutti/reduce.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t margin = 128;  // bytes before and after the result, which must not change
constexpr std::byte untouched{0x5a};

// Any bit pattern may occur: NaNs, infinities, subnormals, both zeros. Floating-point types also get values of similar
// magnitude, so that sums cancel and round.
Bytes contents(DType dtype, std::size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes made(bytes);
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word = random();
    const auto kind = random() % 4;
    if (!is_integer(dtype) && kind < 2) {  // all exponents near that of 1, or the smallest
      const std::uint64_t exponents[] = {0x3c003c003c003c00u, 0x3f803f803f803f80u, 0x3f8000003f800000u,
                                         0x3ff0000000000000u};
      const std::uint64_t fractions[] = {0x83ff83ff83ff83ffu, 0x807f807f807f807fu, 0x807fffff807fffffu,
                                         0x800fffffffffffffu};
      const int layout = dtype == DType::f16 ? 0 : dtype == DType::bf16 ? 1 : dtype == DType::f32 ? 2 : 3;
      word = (word & fractions[layout]) | (kind == 0 ? exponents[layout] : 0);
    }
    std::memcpy(made.data() + i, &word, 8);
  }
  return made;
}

struct Case {
  DType dtype;
  Op op;
  std::size_t sources;
  std::size_t bytes;
  double divisor = 1;
  std::size_t shift = 0;  ///< offset of the result; sources have other offsets
  int alias = -1;         ///< index of the source that the result overwrites; -1: none
  Write write = Write::cached;
};

std::string describe(const Case& c, std::string_view isa) {
  return std::string(name(c.dtype)) + " " + std::string(name(c.op)) + " of " + std::to_string(c.sources) + ", " +
         std::to_string(c.bytes) + " bytes, divisor " + std::to_string(c.divisor) + ", shift " +
         std::to_string(c.shift) + ", alias " + std::to_string(c.alias) + " on " + std::string(isa);
}

// Folds the sources one after the other, by the instruction set's fold of two.
Bytes one_after_the_other(const detail::FoldIsa& isa, const Case& c, std::span<const std::byte* const> sources) {
  const auto dtype = static_cast<std::size_t>(c.dtype), op = static_cast<std::size_t>(c.op);
  Bytes result(c.bytes);
  isa.table->fold[dtype][op](result.data(), sources[0], sources[1], c.bytes, c.sources == 2 ? c.divisor : 1);
  for (std::size_t s = 2; s < c.sources; ++s)
    isa.table->fold[dtype][op](result.data(), result.data(), sources[s], c.bytes, s + 1 == c.sources ? c.divisor : 1);
  return result;
}

// The same for elements of type T, which are converted to float first.
template <class T>
Bytes by_way_of_float(const detail::FoldIsa& isa, Case c, std::span<const std::byte* const> sources) {
  const std::size_t count = c.bytes / sizeof(T);
  std::vector<std::vector<float>> widened;
  std::vector<const std::byte*> places;
  for (const std::byte* const source : sources) {
    std::vector<float>& values = widened.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      T element;
      std::memcpy(&element, source + i * sizeof(T), sizeof(T));
      values[i] = static_cast<float>(element);
    }
    places.push_back(reinterpret_cast<const std::byte*>(values.data()));
  }
  c.dtype = DType::f32;
  c.bytes = count * sizeof(float);
  const Bytes sums = one_after_the_other(isa, c, places);
  Bytes result(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    std::memcpy(&sum, sums.data() + i * sizeof(float), sizeof(float));
    const T rounded(sum);
    std::memcpy(result.data() + i * sizeof(T), &rounded, sizeof(T));
  }
  return result;
}

Bytes expected_of(const detail::FoldIsa& isa, const Case& c, std::span<const std::byte* const> sources) {
  if (c.dtype == DType::f16) return by_way_of_float<f16>(isa, c, sources);
  if (c.dtype == DType::bf16) return by_way_of_float<bf16>(isa, c, sources);
  return one_after_the_other(isa, c, sources);
}

// Runs the case on one instruction set, and compares the result with its folds of two.
void check(const detail::FoldIsa& isa, const Case& c) {
  const auto dtype = static_cast<std::size_t>(c.dtype), op = static_cast<std::size_t>(c.op);
  std::vector<Bytes> memory;
  std::vector<const std::byte*> sources;
  for (std::size_t s = 0; s < c.sources; ++s) {
    const std::size_t shift = static_cast<int>(s) == c.alias ? c.shift : (s * 5) % 64;
    Bytes whole(margin + 64 + c.bytes + margin, untouched);
    const Bytes content = contents(c.dtype, c.bytes + 8, static_cast<unsigned>(s + 1));
    if (c.bytes > 0) std::memcpy(whole.data() + margin + shift, content.data(), c.bytes);
    memory.push_back(std::move(whole));
    sources.push_back(memory.back().data() + margin + shift);
  }
  const Bytes expected = expected_of(isa, c, sources);
  Bytes apart(margin + 64 + c.bytes + margin, untouched);
  Bytes& target = c.alias < 0 ? apart : memory[static_cast<std::size_t>(c.alias)];
  std::byte* const into = target.data() + margin + c.shift;
  isa.table->fold_many[dtype][op]({into, sources.data(), sources.size(), c.bytes, c.divisor, c.write});
  ASSERT_TRUE(c.bytes == 0 || std::memcmp(into, expected.data(), c.bytes) == 0) << describe(c, isa.name);
  for (const std::byte* p = target.data(); p != target.data() + target.size(); ++p) {
    ASSERT_TRUE((p >= into && p < into + c.bytes) || *p == untouched) << describe(c, isa.name);
  }
}

void check_everywhere(const Case& c) {
  for (const auto& isa : detail::fold_isas()) {
    check(isa, c);
    if (testing::Test::HasFatalFailure()) return;
  }
}

class FoldMany : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DType dtype() const { return static_cast<DType>(std::get<0>(GetParam())); }
  Op op() const { return static_cast<Op>(std::get<1>(GetParam())); }
  std::vector<double> divisors() const {
    return op() == Op::avg ? std::vector<double>{1.0, 3.0, 48.0} : std::vector<double>{1.0};
  }
};

TEST_P(FoldMany, IsFoldingOneAfterTheOther) {
  if (!supports(op(), dtype())) {
    EXPECT_THROW((Fold{dtype(), op()}.of(nullptr, {}, 0)), Error);
    return;
  }
  for (const std::size_t sources : {2, 3, 4, 5, 8, 17}) {
    for (const double divisor : divisors()) {
      for (const Write write : {Write::cached, Write::streaming}) {
        check_everywhere({dtype(), op(), sources, 24000, divisor, 0, -1, write});
      }
    }
  }
}

TEST_P(FoldMany, AnyLengthAddressAndAliasing) {
  if (!supports(op(), dtype())) return;
  const std::size_t width = size_of(dtype());
  for (const std::size_t sources : {2, 3, 4}) {
    for (std::size_t count = 0; count * width <= 1300; count += count < 40 ? 1 : 41) {
      const std::size_t shift = (count * 7) % 64;  // also not aligned to the element
      for (int alias = -1; alias < static_cast<int>(sources); ++alias) {
        const Write write = count % 2 == 0 ? Write::streaming : Write::cached;
        check_everywhere({dtype(), op(), sources, count * width, divisors().back(), shift, alias, write});
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::string name_case(const testing::TestParamInfo<std::tuple<int, int>>& info) {
  return std::string(name(static_cast<DType>(std::get<0>(info.param)))) + "_" +
         std::string(name(static_cast<Op>(std::get<1>(info.param))));
}
INSTANTIATE_TEST_SUITE_P(All, FoldMany, testing::Combine(testing::Range(0, dtype_count), testing::Range(0, op_count)),
                         name_case);

// Tests Fold::of(), the public function, which selects the instruction set.
TEST(FoldOfTest, FoldsInOrderAndDividesOnce) {
  std::array<float, 3> a{1e8f, 1, 2}, b{-1e8f, 2, 4}, c{0.5f, 3, 9}, into{};
  const std::array<const std::byte*, 3> sources{reinterpret_cast<std::byte*>(a.data()),
                                                reinterpret_cast<std::byte*>(b.data()),
                                                reinterpret_cast<std::byte*>(c.data())};
  auto* const out = reinterpret_cast<std::byte*>(into.data());
  Fold{DType::f32, Op::sum}.of(out, sources, sizeof(a));
  EXPECT_EQ(into, (std::array<float, 3>{0.5f, 6, 15}));  // the first two values, which are large, cancel
  Fold{DType::f32, Op::avg, 3}.of(out, sources, sizeof(a), Write::streaming);
  EXPECT_EQ(into, (std::array<float, 3>{0.5f / 3, 2, 5}));
}

// 256 + 1 rounds to 256 in bf16, and 2048 + 1 to 2048 in f16. But a sum of nine values is rounded only once.
TEST(FoldOfTest, HalvesAreRoundedOnce) {
  const auto sum_of_nine = []<class T>(T first, DType dtype) {
    std::array<T, 9> values;
    values.fill(T(1.0f));
    values[0] = first;
    std::array<const std::byte*, 9> sources;
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i] = reinterpret_cast<const std::byte*>(&values[i]);
    T result;
    Fold{dtype, Op::sum}.of(reinterpret_cast<std::byte*>(&result), sources, sizeof(T));
    return static_cast<float>(result);
  };
  EXPECT_EQ(sum_of_nine(bf16(256.0f), DType::bf16), 264.0f);
  EXPECT_EQ(sum_of_nine(f16(2048.0f), DType::f16), 2056.0f);
}

TEST(FoldOfTest, OneSourceIsCopiedAndNoneLeavesTheResult) {
  std::vector<std::uint8_t> from(20000), into(20000, 7);
  std::iota(from.begin(), from.end(), std::uint8_t{0});
  auto* const out = reinterpret_cast<std::byte*>(into.data());
  const std::array<const std::byte*, 1> sources{reinterpret_cast<std::byte*>(from.data())};
  const Fold fold{DType::u8, Op::max};
  fold.of(out, {}, into.size());
  EXPECT_EQ(into, std::vector<std::uint8_t>(20000, 7));
  for (const Write write : {Write::cached, Write::streaming}) {
    std::fill(into.begin(), into.end(), std::uint8_t{7});
    fold.of(out, sources, into.size(), write);
    EXPECT_EQ(into, from);
  }
  const std::array<const std::byte*, 1> itself{out};
  fold.of(out, itself, into.size(), Write::streaming);
  EXPECT_EQ(into, from);
}

}  // namespace
}  // namespace tutti
