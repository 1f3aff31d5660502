// Texts: a short text of each rank of a job, in little memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tutti/provider/packed.hpp"

namespace tutti {

/// What one rank tells the others: `own` differs from rank to rank; `shared` is the same on many, such as what all
/// ranks of a host have in common, and is kept and sent once for all of them.
struct Text {
  std::string own, shared;
};

/// The texts of the ranks 0 .. size() - 1, or of a run of ranks, in order. It needs the bytes of all `own`, each
/// different `shared` once, and little more where ranks with the same `shared` follow one another.
///
/// Threads: const functions may be called by several at once.
class Texts {
 public:
  /// Appends the text of the next rank.
  void add(std::string_view own, std::string_view shared);
  /// Appends the texts of the ranks after these.
  void append(const Texts& next);

  std::size_t size() const noexcept { return owns_.size(); }
  std::string_view own(int rank) const { return owns_[static_cast<std::size_t>(rank)]; }
  std::string_view shared(int rank) const { return shared_[numbers_.at(static_cast<std::size_t>(rank))]; }
  /// The different shared texts.
  const PackedTexts& shared_texts() const noexcept { return shared_; }
  /// By rank, which of shared_texts() it has.
  const RunList& shared_numbers() const noexcept { return numbers_; }

  /// The texts as bytes, and back. parse() throws Error{protocol} if these are not the bytes of texts.
  std::string bytes() const;
  static Texts parse(std::string_view bytes);

  /// Bytes of memory that this object holds.
  std::size_t memory() const noexcept;
  /// Frees what only add() and append() need.
  void settle();

 private:
  PackedTexts owns_, shared_;
  RunList numbers_;
  std::map<std::string, std::uint32_t, std::less<>> number_by_text_;
};

}  // namespace tutti
