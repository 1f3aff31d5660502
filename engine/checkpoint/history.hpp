// History: what a run has behind it, in one file that is only added to, beside its checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/report.hpp"

namespace tutti::engine {

/// What grows as a run goes on.
struct RunPast {
  std::vector<double> losses = {};       ///< of each step
  std::vector<EpochResult> epochs = {};  ///< results of the epochs that are done
  std::vector<Validation> validations = {};
};

/// The past of a checkpoint: the first bytes of a file in the folder of the checkpoints, and what is in them.
struct HistoryMark {
  std::string file = {};  ///< empty: there is none, as in a checkpoint of an earlier version
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::size_t losses = 0, epochs = 0, validations = 0;
  bool operator==(const HistoryMark&) const = default;
};

/// Returns true if a file of this name in the folder of the checkpoints is a history.
bool is_history(std::string_view name) noexcept;

/// Reads the past at `mark` of the checkpoints in `folder`, line by line. With `sums`, its checksum is compared. Throws
/// Error{invalid}, in one line, with the file and what is wrong.
RunPast read_history(const std::filesystem::path& folder, const HistoryMark& mark, bool sums);

/// The lines of a history: an object with "losses" of up to 1,000 steps, a "validation" or an "epoch". Throws
/// Error{invalid} with the `name` of the file.
RunPast parse_history(std::string_view lines, const std::string& name);

/// Writes the file. Each checkpoint adds what is new since the one before, so that what is written over a run is what
/// is known at its end, and not the product of that and the number of checkpoints. Where a run goes on from a
/// checkpoint after which another one was written, that one's lines stay: the run goes on in a file of its own, which
/// begins with what the two have in common. note() and append() may be called by two threads, each by one.
class History {
 public:
  /// `from`: the mark of the checkpoint that the run goes on from; none: it begins. Throws Error{resource}.
  History(std::filesystem::path folder, const HistoryMark& from);

  /// The lines of what is new in `past` since the last call; and mark() is then what a checkpoint of it has to say.
  std::string note(const RunPast& past);
  const HistoryMark& mark() const noexcept { return mark_; }
  /// Writes lines of note() where they belong, durably. Throws Error{resource}.
  void append(const std::string& lines, const HistoryMark& mark_after) const;

 private:
  std::filesystem::path folder_;
  HistoryMark mark_;
};

}  // namespace tutti::engine
