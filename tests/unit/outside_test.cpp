// The helpers that handle numbers, bytes and text from outside: checked products, byte queues, printable text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "transports/core/byte_queue.hpp"
#include "transports/core/checked.hpp"
#include "transports/core/printable.hpp"

namespace tutti {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

TEST(CheckedProduct, IsExactOrNothing) {
  const auto product = [](std::size_t first, std::initializer_list<std::int64_t> sizes) {
    return checked_product(first, std::span(sizes.begin(), sizes.size()));
  };
  EXPECT_EQ(product(4, {}), 4U);
  EXPECT_EQ(product(4, {3, 5}), 60U);
  EXPECT_EQ(product(1, {largest}), static_cast<std::size_t>(largest));
  EXPECT_EQ(product(2, {largest}), std::nullopt);
  EXPECT_EQ(product(4, {std::int64_t{1} << 62}), std::nullopt) << "would wrap to 0";
  EXPECT_EQ(product(8, {std::int64_t{1} << 31, std::int64_t{1} << 31}), std::nullopt);
  EXPECT_EQ(product(4, {3, -1}), std::nullopt);
  EXPECT_EQ(product(4, {0, -1}), std::nullopt) << "a negative size is none, whatever stands before it";
  EXPECT_EQ(product(8, {largest, largest, 0}), 0U) << "nothing, however it is divided";
  EXPECT_EQ(product(0, {5}), 0U);
}

TEST(CheckedProduct, HasALimit) {
  EXPECT_EQ(checked_product(std::size_t{10}, std::size_t{10}, 100), 100U);
  EXPECT_EQ(checked_product(std::size_t{10}, std::size_t{10}, 99), std::nullopt);
  EXPECT_EQ(checked_product(SIZE_MAX, std::size_t{2}), std::nullopt);
}

TEST(LiesWithin, DoesNotWrap) {
  EXPECT_TRUE(lies_within(0, 10, 10));
  EXPECT_TRUE(lies_within(10, 0, 10));
  EXPECT_FALSE(lies_within(1, 10, 10));
  EXPECT_FALSE(lies_within(11, 0, 10));
  EXPECT_FALSE(lies_within(5, SIZE_MAX - 2, 10));
}

TEST(ByteQueue, IsAQueue) {
  ByteQueue queue;
  std::string expected;
  for (std::size_t i = 0; i < 1000; ++i) {
    const std::string more(i % 37, static_cast<char>('a' + i % 26));
    queue.append(more);
    expected += more;
    const std::size_t out = std::min(expected.size(), i % 31);
    queue.drop(out);
    expected.erase(0, out);
    ASSERT_EQ(queue.view(), expected);
    ASSERT_EQ(queue.size(), expected.size());
  }
  queue.clear();
  EXPECT_TRUE(queue.empty());
}

TEST(Printable, IsOneLineWithoutCommands) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("a\xc2\x9b\x9b"
                      "1m"),
            "a\\xc2\\x9b\\x9b1m")
      << "the upper half has a CSI, too";
  EXPECT_EQ(printable("\xe2\x82\xac \xe2\x82"), "\xe2\x82\xac \\xe2\\x82") << "no whole character";
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
}

}  // namespace
}  // namespace tutti
