// Mutator: makes inputs by changing those of a corpus; the same seed gives the same inputs.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tutti::fuzz {

using Bytes = std::vector<std::uint8_t>;

class Mutator {
 public:
  /// `corpus` is not empty. No input is longer than `longest`.
  Mutator(std::vector<Bytes> corpus, std::uint64_t seed, std::size_t longest);

  /// An input of the corpus with one to eight changes, mostly few: bits, bytes and numbers that are replaced, ranges
  /// that are removed, repeated, moved, or taken from another input, and decimal numbers and words that are exchanged.
  const Bytes& next();

 private:
  void change();
  void put_number();
  void put_digits();
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }
  void insert(std::size_t at, const Bytes& what);

  const std::vector<Bytes> corpus_;
  std::vector<Bytes> words_;  ///< words in all inputs: letters, digits, and signs that join them
  std::mt19937_64 random_;
  const std::size_t longest_;
  Bytes input_;
};

}  // namespace tutti::fuzz
