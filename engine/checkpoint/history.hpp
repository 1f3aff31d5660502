// History: the results of a run so far, in one file beside its checkpoints, to which each checkpoint appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/report.hpp"

namespace tutti::engine {

/// The results of a run so far, whose number grows with its steps.
struct RunPast {
  std::vector<double> losses = {};       ///< of each step
  std::vector<EpochResult> epochs = {};  ///< results of the epochs that are done
  std::vector<Validation> validations = {};
};

/// Where the past of a checkpoint is: the first `bytes` bytes of a file in the folder of the checkpoints, their
/// checksum, and the numbers of losses, epochs and validations in them.
struct HistoryMark {
  std::string file = {};  ///< empty: no history; a checkpoint of an earlier version has its past in state.json
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::size_t losses = 0, epochs = 0, validations = 0;
  bool operator==(const HistoryMark&) const = default;
};

/// Returns true if a file of this name in the folder of the checkpoints is a history.
bool is_history(std::string_view name) noexcept;

/// Reads the past that `mark` describes; `folder` is the folder of the checkpoints. With `sums`, compares the checksum.
/// Throws Error{invalid}, in one line, with the file and what is wrong.
RunPast read_history(const std::filesystem::path& folder, const HistoryMark& mark, bool sums);

/// Parses the lines of a history. Each line is an object with "losses" (of up to 1,000 steps), a "validation" or an
/// "epoch". Throws Error{invalid} with the `name` of the file.
RunPast parse_history(std::string_view lines, const std::string& name);

/// Writes the history. A checkpoint appends only what is new since the previous one, so the bytes written over a run
/// are proportional to its results, not to results times checkpoints. If a run resumes from a checkpoint and the file
/// has lines of later checkpoints, those lines stay. The run then gets a new file, which begins with a copy of the
/// lines up to its checkpoint. One thread calls note(), and one thread, possibly another one, calls append().
class History {
 public:
  /// `from`: the mark of the checkpoint that the run resumes from; an empty one for a new run. Removes histories in
  /// `folder` that no checkpoint needs. Throws Error{resource}.
  History(std::filesystem::path folder, const HistoryMark& from);

  /// Returns the lines for what is new in `past` since the last call. Afterwards mark() is the mark that a checkpoint
  /// of `past` stores.
  std::string note(const RunPast& past);
  const HistoryMark& mark() const noexcept { return mark_; }
  /// Writes lines that note() returned, durably; `mark_after` is mark() after that call. The file then ends with them.
  /// Throws Error{resource}.
  void append(const std::string& lines, const HistoryMark& mark_after) const;

 private:
  std::filesystem::path folder_;
  HistoryMark mark_;
};

}  // namespace tutti::engine
