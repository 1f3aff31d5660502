#include "engine/data/blocks.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "engine/data/random.hpp"

namespace tutti::engine {
namespace {

/// Calls `use` with the consecutive parts of `values`: as few as possible of at most `most` values each, whose sizes
/// differ by at most one.
template <class T, class Use>
void for_parts(std::span<T> values, std::size_t most, const Use& use) {
  const std::size_t each = std::max<std::size_t>(most, 1);
  const auto parts = static_cast<int>((values.size() + each - 1) / each);
  for (int i = 0; i < parts; ++i) {
    const Range part = share(values.size(), i, parts);
    use(values.subspan(part.begin, part.count));
  }
}

}  // namespace

std::size_t Blocks::count() const noexcept {
  return std::accumulate(files.begin(), files.end(), std::size_t{0},
                         [](std::size_t sum, const auto& file) { return sum + file.size(); });
}

std::size_t Blocks::samples() const noexcept {
  std::size_t sum = 0;
  for (const auto& file : files) sum = std::accumulate(file.begin(), file.end(), sum);
  return sum;
}

std::uint64_t Blocks::digest() const noexcept {
  std::uint64_t found = 0;
  for (const auto& file : files) {
    found = Random::keyed(found, file.size()).next();
    for (const std::size_t length : file) found = Random::keyed(found, length).next();
  }
  return found >> 32;
}

std::vector<BlockWindow> windows_of(const Blocks& blocks, std::uint64_t seed, std::size_t epoch) {
  std::vector<std::vector<Range>> files;
  std::size_t end = 0;
  for (const auto& lengths : blocks.files) {
    files.emplace_back();
    for (const std::size_t length : lengths) {
      files.back().push_back({end, length});
      end += length;
    }
  }
  shuffle(std::span(files), Random::keyed(seed, 0xf11e5, epoch));
  std::vector<BlockWindow> windows;
  std::size_t turn = 0, place = 0;
  for_parts(std::span(files), blocks.open, [&](std::span<std::vector<Range>> open) {
    std::vector<Range> together;
    for (const auto& file : open) together.insert(together.end(), file.begin(), file.end());
    shuffle(std::span(together), Random::keyed(seed, 0xb10c5, epoch, place));
    for_parts(std::span(together), blocks.window, [&](std::span<Range> window) {
      windows.push_back({turn, {window.begin(), window.end()}});
      for (const Range& block : window) place += block.count;
    });
    ++turn;
  });
  return windows;
}

}  // namespace tutti::engine
