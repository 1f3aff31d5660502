// copy(), fetch(), copy_streaming() and copy_unordered() copy every byte and no others, at any length and address.
#include "transports/core/copy.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Copy = void (*)(std::byte* into, const std::byte* from, std::size_t bytes);
using Bytes = std::vector<std::byte>;

void plain(std::byte* into, const std::byte* from, std::size_t bytes) { copy(into, from, bytes); }
void fetched(std::byte* into, const std::byte* from, std::size_t bytes) { fetch(into, from, bytes); }
void streaming(std::byte* into, const std::byte* from, std::size_t bytes) { copy_streaming(into, from, bytes); }
void unordered(std::byte* into, const std::byte* from, std::size_t bytes) {
  copy_unordered(into, from, bytes);
  order_copies();
}

constexpr std::size_t margin = 128;
constexpr std::byte untouched{0x5a};

void check(Copy method, std::size_t bytes, std::size_t into_shift, std::size_t from_shift) {
  std::mt19937 random(static_cast<unsigned>(bytes));
  Bytes from(from_shift + bytes);
  for (std::byte& value : from) value = static_cast<std::byte>(random());
  Bytes into(margin + into_shift + bytes + margin, untouched);
  Bytes expected = into;
  const auto at = static_cast<std::ptrdiff_t>(margin + into_shift);
  std::copy(from.begin() + static_cast<std::ptrdiff_t>(from_shift), from.end(), expected.begin() + at);
  method(into.data() + at, from.data() + from_shift, bytes);
  ASSERT_EQ(into, expected) << bytes << " bytes to " << into_shift << " from " << from_shift;
}

class CopyTest : public testing::TestWithParam<Copy> {};

TEST_P(CopyTest, EveryByteAndNoOther) {
  for (const std::size_t middle : {std::size_t{0}, std::size_t{64}, detail::small_copy, std::size_t{8192}}) {
    for (std::size_t bytes = middle < 16 ? 0 : middle - 16; bytes <= middle + 80; bytes += 3) {
      for (const std::size_t shift : {0, 1, 17, 63}) check(GetParam(), bytes, shift, (shift * 5) % 64);
    }
  }
  check(GetParam(), (1 << 20) + 13, 5, 9);
}

// Targets whose offset in a page is a few bytes after the source's.
TEST_P(CopyTest, EveryByteAtSuchDistances) {
  Bytes memory(5 * 4096);
  for (const std::size_t behind : {1, 15, 63, 64}) {
    std::byte* const from = memory.data() + (-reinterpret_cast<std::uintptr_t>(memory.data()) % 64) + 64 - behind % 64;
    std::byte* const into = from + 2 * 4096 + behind;
    for (std::size_t i = 0; i < 8000; ++i) from[i] = static_cast<std::byte>(i * 7 + behind);
    GetParam()(into, from, 8000);
    EXPECT_TRUE(std::equal(from, from + 8000, into)) << behind;
  }
}

std::string name_case(const testing::TestParamInfo<Copy>& info) {
  constexpr const char* names[] = {"copy", "fetch", "copy_streaming", "copy_unordered"};
  return names[info.index];
}
INSTANTIATE_TEST_SUITE_P(All, CopyTest, testing::Values(plain, fetched, streaming, unordered), name_case);

TEST(CopyWayTest, IsNamed) {
  std::printf("larger blocks are copied by %s\n", copy_way().data());
  EXPECT_TRUE(copy_way() == "fsrm" || copy_way() == "erms" || copy_way() == "memcpy") << copy_way();
}

}  // namespace
}  // namespace tutti
