// Inbox: control messages that have arrived and are not handled yet.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tutti/buffer.hpp"

namespace tutti {

/// A queue in the order of arrival. clear() keeps the memory, so that later messages need no allocation.
class Inbox {
 public:
  void put(int from, ConstBytes message) {
    if (messages_.capacity() == 0) {
      messages_.reserve(usual);
      bytes_.reserve(usual * usual_bytes);
    }
    messages_.push_back({from, bytes_.size(), message.size()});
    bytes_.insert(bytes_.end(), message.begin(), message.end());
  }
  void clear() noexcept {
    messages_.clear();
    bytes_.clear();
  }
  void swap(Inbox& other) noexcept {
    messages_.swap(other.messages_);
    bytes_.swap(other.bytes_);
  }
  /// Calls `each(from, message)`, with the world rank of the sender.
  template <class Each>
  void for_each(Each each) const {
    for (const Message& one : messages_) each(one.from, ConstBytes(bytes_).subspan(one.begin, one.count));
  }

 private:
  static constexpr std::size_t usual = 64, usual_bytes = 40;
  struct Message {
    int from;
    std::size_t begin, count;  // in bytes_
  };
  std::vector<Message> messages_;
  std::vector<std::byte> bytes_;
};

}  // namespace tutti
