// Inbox: control messages that have arrived and are not handled yet.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/buffer.hpp"

namespace tutti {

/// In the order of their arrival. Keeps its memory when it is emptied, so that messages which come regularly take none.
class Inbox {
 public:
  void put(int from, ConstBytes message) {
    if (letters_.capacity() == 0) {
      letters_.reserve(usual);
      bytes_.reserve(usual * usual_bytes);
    }
    letters_.push_back({from, bytes_.size(), message.size()});
    bytes_.insert(bytes_.end(), message.begin(), message.end());
  }
  void clear() noexcept {
    letters_.clear();
    bytes_.clear();
  }
  void swap(Inbox& other) noexcept {
    letters_.swap(other.letters_);
    bytes_.swap(other.bytes_);
  }
  /// Calls `each(from, message)`, with the world rank of the sender.
  template <class Each>
  void for_each(Each each) const {
    for (const Letter& one : letters_) each(one.from, ConstBytes(bytes_).subspan(one.begin, one.count));
  }

 private:
  static constexpr std::size_t usual = 64, usual_bytes = 40;
  struct Letter {
    int from;
    std::size_t begin, count;  // in bytes_
  };
  std::vector<Letter> letters_;
  std::vector<std::byte> bytes_;
};

}  // namespace tutti
