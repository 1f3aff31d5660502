// Texts: a short text of each rank of a job, stored compactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tutti/provider/packed.hpp"

namespace tutti {

/// The text that one rank publishes for the others. `own` differs from rank to rank. `shared` is equal on many ranks,
/// for example on all ranks of a host, and is stored and sent once for all of them.
struct Text {
  std::string own, shared;
};

/// The texts of the ranks 0 .. size() - 1, or of consecutive ranks, in order. The memory holds all `own` and each
/// different `shared` once, and little more if ranks with the same `shared` are consecutive.
///
/// Threads: several threads may call const functions at once.
class Texts {
 public:
  /// Appends the text of the next rank.
  void add(std::string_view own, std::string_view shared);
  /// Appends the texts of the next ranks.
  void append(const Texts& next);

  std::size_t size() const noexcept { return owns_.size(); }
  std::string_view own(int rank) const { return owns_[static_cast<std::size_t>(rank)]; }
  std::string_view shared(int rank) const { return shared_[numbers_.at(static_cast<std::size_t>(rank))]; }
  /// The different shared texts.
  const PackedTexts& shared_texts() const noexcept { return shared_; }
  /// For each rank, the index of its shared text in shared_texts().
  const RunList& shared_numbers() const noexcept { return numbers_; }

  /// bytes() serialises the texts; parse() is the inverse. parse() throws Error{protocol} for invalid bytes.
  std::string bytes() const;
  static Texts parse(std::string_view bytes);

  /// Bytes of memory that this object holds.
  std::size_t memory() const noexcept;
  /// Frees the memory that only add() and append() need.
  void settle();

 private:
  PackedTexts owns_, shared_;
  RunList numbers_;
  std::map<std::string, std::uint32_t, std::less<>> number_by_text_;
};

}  // namespace tutti
