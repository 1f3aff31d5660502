#include "tests/fuzz/mutator.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace tutti::fuzz {
namespace {

// Numbers at which programs go wrong: limits of types, powers of two, and their neighbours.
constexpr std::uint64_t numbers[] = {0,
                                     1,
                                     2,
                                     7,
                                     16,
                                     64,
                                     100,
                                     127,
                                     128,
                                     255,
                                     256,
                                     1000,
                                     4096,
                                     32'767,
                                     32'768,
                                     65'535,
                                     65'536,
                                     1 << 20,
                                     (1u << 31) - 1,
                                     1u << 31,
                                     0xffff'ffffu,
                                     std::uint64_t{1} << 32,
                                     (std::uint64_t{1} << 32) + 1,
                                     std::uint64_t{1} << 40,
                                     std::uint64_t{1} << 61,
                                     std::uint64_t{1} << 62,
                                     (std::uint64_t{1} << 63) - 1,
                                     std::uint64_t{1} << 63,
                                     ~std::uint64_t{0} - 1,
                                     ~std::uint64_t{0}};

constexpr const char* digits[] = {"0",
                                  "-1",
                                  "1",
                                  "12.7",
                                  "1e308",
                                  "-0",
                                  "nan",
                                  "inf",
                                  "255",
                                  "65536",
                                  "2147483647",
                                  "2147483648",
                                  "4294967296",
                                  "99999999999",
                                  "1000000000000000000",
                                  "9223372036854775807",
                                  "9223372036854775808",
                                  "18446744073709551615",
                                  "18446744073709551616"};

bool in_word(std::uint8_t c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; }

}  // namespace

Mutator::Mutator(std::vector<Bytes> corpus, std::uint64_t seed, std::size_t longest)
    : corpus_(std::move(corpus)), random_(seed), longest_(longest) {
  std::set<Bytes> words;
  for (const Bytes& each : corpus_)
    for (auto begin = each.begin(); begin != each.end() && words.size() < 4000;) {
      const auto end = std::find_if_not(begin, each.end(), in_word);
      if (end - begin >= 2 && end - begin <= 40) words.emplace(begin, end);
      begin = end == each.end() ? end : end + 1;
    }
  words_.assign(words.begin(), words.end());
}

const Bytes& Mutator::next() {
  input_ = corpus_[below(corpus_.size())];
  std::size_t changes = 1;
  while (changes < 8 && below(2) == 0) ++changes;
  for (; changes > 0; --changes) change();
  if (input_.size() > longest_) input_.resize(longest_);
  return input_;
}

void Mutator::insert(std::size_t at, const Bytes& what) {
  if (input_.size() + what.size() <= longest_)
    input_.insert(input_.begin() + static_cast<std::ptrdiff_t>(at), what.begin(), what.end());
}

void Mutator::put_number() {
  const std::size_t width = std::size_t{1} << below(4);
  if (input_.size() < width) return;
  const std::size_t at = below(input_.size() - width + 1);
  const std::uint64_t number = numbers[below(std::size(numbers))] + (below(4) == 0 ? below(3) - 1 : 0);
  const bool big_endian = below(2) == 0;
  for (std::size_t i = 0; i < width; ++i)
    input_[at + i] = static_cast<std::uint8_t>(number >> (8 * (big_endian ? width - 1 - i : i)));
}

void Mutator::put_digits() {
  const auto is_digit = [](std::uint8_t c) { return std::isdigit(c) != 0; };
  const auto from = input_.begin() + static_cast<std::ptrdiff_t>(below(input_.size()));
  const auto begin = std::find_if(from, input_.end(), is_digit);
  if (begin == input_.end()) return;
  const auto end = std::find_if_not(begin, input_.end(), is_digit);
  const auto at = static_cast<std::size_t>(begin - input_.begin());
  const std::string text = digits[below(std::size(digits))];
  input_.erase(begin, end);
  insert(at, {text.begin(), text.end()});
}

void Mutator::change() {
  if (input_.empty()) return insert(0, Bytes(1 + below(16), static_cast<std::uint8_t>(below(256))));
  const std::size_t size = input_.size(), at = below(size);
  const std::size_t length = 1 + below(std::min<std::size_t>(size - at, below(4) == 0 ? size : 16));
  const auto from = input_.begin() + static_cast<std::ptrdiff_t>(at);
  const auto to = from + static_cast<std::ptrdiff_t>(std::min(length, size - at));
  switch (below(10)) {
    case 0: *from ^= static_cast<std::uint8_t>(1 << below(8)); break;
    case 1: *from = static_cast<std::uint8_t>(below(256)); break;
    case 2: put_number(); break;
    case 3: put_digits(); break;
    case 4: input_.erase(from, to); break;
    case 5: input_.resize(at); break;
    case 6: insert(below(size), Bytes(from, to)); break;
    case 7: {
      Bytes repeated;
      for (std::size_t times = 1 + below(below(8) == 0 ? 1000 : 8); times > 0; --times)
        repeated.insert(repeated.end(), from, to);
      insert(at, repeated);
      break;
    }
    case 8: {
      const Bytes& other = corpus_[below(corpus_.size())];
      if (other.empty()) break;
      const std::size_t begin = below(other.size()), part = 1 + below(other.size() - begin);
      const auto source = other.begin() + static_cast<std::ptrdiff_t>(begin);
      insert(at, Bytes(source, source + static_cast<std::ptrdiff_t>(part)));
      break;
    }
    default:
      if (!words_.empty()) insert(at, words_[below(words_.size())]);
  }
}

}  // namespace tutti::fuzz
