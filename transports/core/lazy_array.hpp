// LazyArray: an array whose elements are made when they are first used.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace tutti {

/// `size` elements by index, most of which are never used: the state for each peer of a rank that communicates with few
/// peers. Elements are made by their default constructor, `Block` at a time, and never move. So an unused element costs
/// sizeof(void*) / Block bytes, and an access costs one indirection.
template <class Element, std::size_t Block = 16>
class LazyArray {
 public:
  LazyArray() = default;
  explicit LazyArray(std::size_t size) : size_(size), blocks_((size + Block - 1) / Block) {}

  std::size_t size() const noexcept { return size_; }

  Element& operator[](std::size_t i) {
    std::unique_ptr<Elements>& block = blocks_[i / Block];
    if (!block) [[unlikely]]
      block = std::make_unique<Elements>();
    return (*block)[i % Block];
  }

  /// The element if it has been made; else null.
  Element* find(std::size_t i) noexcept { return blocks_[i / Block] ? &(*blocks_[i / Block])[i % Block] : nullptr; }
  const Element* find(std::size_t i) const noexcept {
    return blocks_[i / Block] ? &(*blocks_[i / Block])[i % Block] : nullptr;
  }

  /// Calls `function(index, element)` for each element that has been made.
  template <class Function>
  void each(Function function) {
    for (std::size_t block = 0; block < blocks_.size(); ++block)
      if (blocks_[block])
        for (std::size_t i = 0; i < Block && block * Block + i < size_; ++i)
          function(block * Block + i, (*blocks_[block])[i]);
  }

 private:
  using Elements = std::array<Element, Block>;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Elements>> blocks_;
};

}  // namespace tutti
