// Shared memory: zeroed, aligned, shared with a child, and refused with a clear error if it is not available.
#include "tutti/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tutti/status.hpp"

namespace tutti {
namespace {

TEST(Memory, IsZeroedAlignedAndWritable) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
    const auto memory = allocate_shared(bytes);
    auto* data = static_cast<unsigned char*>(memory.get());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)), 0u);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](unsigned char c) { return c == 0; }));
    std::fill(data, data + bytes, static_cast<unsigned char>(7));
  }
}

TEST(Memory, IsSharedWithAChild) {
  const auto memory = allocate_shared(sizeof(int));
  const pid_t child = ::fork();
  if (child == 0) {
    *static_cast<int*>(memory.get()) = 42;
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(*static_cast<int*>(memory.get()), 42);
}

TEST(Memory, RefusesWhatTheHostDoesNotHave) {
  try {
    allocate_shared(std::size_t{1} << 50);
    FAIL() << "a PiB was handed out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::resource);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("1 PiB"));
  }
}

TEST(Memory, SaysSizes) {
  EXPECT_EQ(size_text(17), "17 bytes");
  EXPECT_EQ(size_text(65536), "64 KiB");
  EXPECT_EQ(size_text(3u << 29), "1.5 GiB");
  EXPECT_GT(available_memory(), 0u);
}

}  // namespace
}  // namespace tutti
