// CheckpointStore: the folder of a run's checkpoints, with links to the last and the best one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::engine {

/// The N of "step-N"; nullopt for any other name.
std::optional<std::uint64_t> checkpoint_step(std::string_view name);

/// The checkpoint that a run resumes from.
struct ChosenCheckpoint {
  std::optional<std::uint64_t> step;      ///< nullopt: there is none, so the run starts at step 0
  std::vector<std::string> skipped = {};  ///< what is wrong with each checkpoint that was passed over
};

class CheckpointStore;
/// Returns the first checkpoint of store.all() that is whole (verify_checkpoint); if `asked` is "step-N", that
/// checkpoint. Throws Error{invalid} if there are checkpoints but none is whole, or if the checkpoint in `asked` is not
/// whole.
ChosenCheckpoint choose_checkpoint(const CheckpointStore& store, std::string_view asked, bool sums);

/// FOLDER/step-N holds one checkpoint; FOLDER/last and FOLDER/best are symbolic links to two of them. A folder named
/// step-N is always complete: it is written under another name, made durable and then renamed. If the process is killed
/// at any point, the previous checkpoint remains the last one. One process writes, one thread at a time; other
/// processes may read.
class CheckpointStore {
 public:
  /// `keep`: number of the newest checkpoints that are kept besides the best one; 0: all. With `writes`, creates the
  /// folder and removes unfinished checkpoints of earlier processes. Throws Error{resource} if the folder cannot be
  /// created.
  CheckpointStore(std::filesystem::path folder, std::size_t keep, bool writes);

  /// Writes a checkpoint. `fill` writes its files, durably (AtomicFile), into the folder that it is given. Afterwards
  /// the link `last` points to the checkpoint, and `best` too if `best` is set. Throws the errors of `fill` and
  /// Error{resource}; earlier checkpoints are not affected by an error.
  void save(std::uint64_t step, const std::function<void(const std::filesystem::path&)>& fill, bool best) const;

  /// save() in three parts, for a checkpoint that several processes fill. begin() creates the folder for its files.
  /// commit() turns that folder into the checkpoint; abandon() removes it. Errors as in save().
  std::filesystem::path begin(std::uint64_t step) const;
  void commit(std::uint64_t step, bool best) const;
  void abandon(std::uint64_t step) const noexcept;
  /// The path of the folder that begin() creates.
  std::filesystem::path unfinished_folder(std::uint64_t step) const;

  /// All checkpoints, also damaged ones, in the order in which a run tries to resume from them: the one that was saved
  /// last; earlier steps, newest first; then later steps, newest first.
  std::vector<std::filesystem::path> all() const;
  /// The checkpoint that was saved last, and the one that was last saved as best; nullopt if there is none.
  std::optional<std::filesystem::path> last() const;
  std::optional<std::filesystem::path> best() const;
  const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  void remove_old() const;

  std::filesystem::path folder_;
  std::size_t keep_;
};

}  // namespace tutti::engine
