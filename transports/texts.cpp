// Texts: see texts.hpp.
#include "tutti/provider/texts.hpp"

#include "transports/core/varint.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

[[noreturn]] void garbled_texts() {
  throw Error(Code::protocol, "what the ranks tell one another at the start cannot be read; use one tutti everywhere");
}

std::size_t take_number(std::string_view& bytes) {
  constexpr unsigned most_bits = 35;
  const auto number = take_varint(bytes, most_bits);
  if (!number) garbled_texts();
  return static_cast<std::size_t>(*number);
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
  put_varint(bytes, shared_.size());
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    put_varint(bytes, shared_[i].size());
    bytes += shared_[i];
  }
  put_varint(bytes, size());
  for (std::size_t rank = 0; rank < size(); ++rank) {
    put_varint(bytes, numbers_[rank]);
    put_varint(bytes, owns_[rank].size());
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
