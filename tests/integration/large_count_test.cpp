// Counts beyond 2^31 elements.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <span>

#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/memory.hpp"

namespace tutti::testing {
namespace {

constexpr std::size_t count = (std::size_t{1} << 31) + 5;

// Anonymous memory, which the destructor returns to the system at once.
struct Pages {
  explicit Pages(std::size_t bytes) : size(bytes) {
    data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { ::munmap(data, size); }
  std::size_t size;
  void* data;
};

// ThreadSanitizer keeps four bytes for every byte that is touched; AddressSanitizer keeps one byte for eight.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t memory_factor = 6;
#else
constexpr std::size_t memory_factor = 1;
#endif

class LargeCount : public ::testing::TestWithParam<DType> {};

TEST_P(LargeCount, AllreduceInPlace) {
  const std::size_t width = size_of(GetParam());
  const std::size_t need = 2 * count * width * memory_factor + (1ull << 30);
  if (available_memory() < need) GTEST_SKIP() << "needs " << size_text(need) << " of memory";
  Settings settings = test_settings("shm");
  settings.timeout = 280;  // gigabytes may take long on a slow machine
  run_ranks(2, settings, [&](Communicator& world) {
    Pages pages(count * width);
    auto* const bytes = static_cast<std::uint8_t*>(pages.data);
    const auto set = [&](std::size_t i, float value) {
      if (GetParam() == DType::f16)
        reinterpret_cast<f16*>(bytes)[i] = f16(value);
      else
        reinterpret_cast<std::int8_t*>(bytes)[i] = static_cast<std::int8_t>(value);
    };
    const auto at = [&](std::size_t i) {
      return GetParam() == DType::f16 ? static_cast<float>(reinterpret_cast<f16*>(bytes)[i])
                                      : static_cast<float>(reinterpret_cast<std::int8_t*>(bytes)[i]);
    };
    const std::size_t places[] = {0, 1, (1u << 31) - 1, 1u << 31, count - 1};
    for (const std::size_t i : places) set(i, static_cast<float>(1 + world.rank()));
    world.allreduce(Buffer(pages.data, count, GetParam())).wait();
    for (const std::size_t i : places)
      if (at(i) != 3.0f) throw std::runtime_error("element " + std::to_string(i) + " is " + std::to_string(at(i)));
    if (at(2) != 0.0f || at(count - 2) != 0.0f) throw std::runtime_error("an element was touched by another's sum");
  });
}

INSTANTIATE_TEST_SUITE_P(OneByteAndTwo, LargeCount, ::testing::Values(DType::i8, DType::f16),
                         [](const auto& param) { return std::string(name(param.param)); });

}  // namespace
}  // namespace tutti::testing
