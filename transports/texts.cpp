// Texts: see texts.hpp.
#include "tutti/provider/texts.hpp"

#include "tutti/status.hpp"

namespace tutti {
namespace {

// Numbers are sent in groups of seven bits, the lowest first; the high bit says that another group follows.
void put_number(std::string& bytes, std::size_t number) {
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  bytes += static_cast<char>(number);
}

[[noreturn]] void garbled_texts() {
  throw Error(Code::protocol, "what the ranks tell one another at the start cannot be read; use one tutti everywhere");
}

std::size_t take_number(std::string_view& bytes) {
  std::size_t number = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    if (bytes.empty()) garbled_texts();
    const auto group = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<std::size_t>(group & 0x7f) << shift;
    if (group < 0x80) return number;
  }
  garbled_texts();
}

std::string_view take_text(std::string_view& bytes) {
  const std::size_t length = take_number(bytes);
  if (length > bytes.size()) garbled_texts();
  const std::string_view text = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return text;
}

}  // namespace

void Texts::add(std::string_view own, std::string_view shared) {
  if (number_by_text_.size() != shared_.size())
    for (std::size_t i = 0; i < shared_.size(); ++i)
      number_by_text_.insert_or_assign(std::string(shared_[i]), static_cast<std::uint32_t>(i));
  auto found = number_by_text_.find(shared);
  if (found == number_by_text_.end()) {
    found = number_by_text_.emplace(shared, static_cast<std::uint32_t>(shared_.size())).first;
    shared_.push_back(shared);
  }
  owns_.push_back(own);
  numbers_.push_back(found->second);
}

void Texts::append(const Texts& next) {
  for (int rank = 0; rank < static_cast<int>(next.size()); ++rank) add(next.own(rank), next.shared(rank));
}

std::string Texts::bytes() const {
  std::string bytes;
  put_number(bytes, shared_.size());
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    put_number(bytes, shared_[i].size());
    bytes += shared_[i];
  }
  put_number(bytes, size());
  for (std::size_t rank = 0; rank < size(); ++rank) {
    put_number(bytes, numbers_[rank]);
    put_number(bytes, owns_[rank].size());
    bytes += owns_[rank];
  }
  return bytes;
}

Texts Texts::parse(std::string_view bytes) {
  Texts texts;
  const std::size_t distinct = take_number(bytes);
  for (std::size_t i = 0; i < distinct; ++i) texts.shared_.push_back(take_text(bytes));
  const std::size_t ranks = take_number(bytes);
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t number = take_number(bytes);
    if (number >= distinct) garbled_texts();
    texts.owns_.push_back(take_text(bytes));
    texts.numbers_.push_back(static_cast<std::uint32_t>(number));
  }
  if (!bytes.empty()) garbled_texts();
  return texts;
}

std::size_t Texts::memory() const noexcept {
  std::size_t bytes = sizeof(*this) + owns_.memory() + shared_.memory() + numbers_.memory();
  constexpr std::size_t node = 80;  // of the map: links, a string and a number
  for (const auto& [text, number] : number_by_text_) bytes += node + text.capacity();
  return bytes;
}

void Texts::settle() {
  number_by_text_.clear();
  owns_.shrink_to_fit();
  shared_.shrink_to_fit();
  numbers_.shrink_to_fit();
}

}  // namespace tutti
