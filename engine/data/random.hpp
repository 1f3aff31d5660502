// A random number generator with the same numbers on every platform and standard library: SplitMix64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tutti::engine {

/// A stream of 64-bit numbers; equal seeds give equal streams.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(seed) {}

  /// The stream of `seed` for one purpose, which the keys identify: (epoch), (epoch, sample), ...
  template <class... Keys>
  static constexpr Random keyed(std::uint64_t seed, Keys... keys) noexcept {
    Random stream(seed);
    ((stream.state_ = stream.next() ^ static_cast<std::uint64_t>(keys)), ...);
    return Random(stream.next());
  }

  constexpr std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound), bound > 0, without modulo bias (rejection sampling).
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t reject = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t draw = next();
      if (draw >= reject) return draw % bound;
    }
  }

 private:
  std::uint64_t state_;
};

/// Fisher-Yates shuffle.
template <class T>
constexpr void shuffle(std::span<T> values, Random random) noexcept {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

}  // namespace tutti::engine
