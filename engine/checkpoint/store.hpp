// Where a run keeps its checkpoints: a folder for each, and which of them is the last and the best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace tutti::engine {

/// FOLDER/step-N holds one checkpoint; FOLDER/last and FOLDER/best are symbolic links to two of them. A folder called
/// step-N is always whole: it is filled under another name, made durable, and then renamed. A process may be killed at
/// any point; the checkpoint before stays the last one then. One process writes, on one thread at a time; others may
/// read.
class CheckpointStore {
 public:
  /// `keep`: how many of the newest stay, beside the best one; 0: all. Removes what an earlier process left unfinished
  /// if `writes`. Throws Error{resource} where the folder cannot be made.
  CheckpointStore(std::filesystem::path folder, std::size_t keep, bool writes);

  /// Makes a checkpoint: `fill` writes files into the folder that it is given, durably (AtomicFile). Then the link
  /// `last` points to it, `best` too if it is. Throws what `fill` throws, and Error{resource}; earlier checkpoints stay
  /// then.
  void save(std::uint64_t step, const std::function<void(const std::filesystem::path&)>& fill, bool best);

  /// The newest checkpoint, and the one that was said to be best; nullopt: there is none.
  std::optional<std::filesystem::path> last() const;
  std::optional<std::filesystem::path> best() const;

 private:
  void remove_old() const;

  std::filesystem::path folder_;
  std::size_t keep_;
};

}  // namespace tutti::engine
