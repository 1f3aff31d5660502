// Saver: writes checkpoints on a thread of its own while training continues.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// The contents of a checkpoint. The arrays must not change while they are written.
struct CheckpointFiles {
  std::map<std::string, Fields> tensors;             ///< by file name; written as safetensors
  std::map<std::string, std::string> texts;          ///< by file name
  std::map<std::string, std::string> metadata = {};  ///< metadata of the tensor files
  std::function<void()> history = {};                ///< writes the history that the state refers to; called first
};

/// At most one checkpoint is being written at a time. start() and wait() are called by one thread.
class Saver {
 public:
  explicit Saver(CheckpointStore store) : store_(std::move(store)) {}
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Waits for the previous checkpoint and starts writing this one. Throws the error of the previous one.
  void start(std::uint64_t step, CheckpointFiles files, bool best);
  /// The same for a checkpoint that `write` writes into `store`.
  void start(std::function<void(const CheckpointStore& store)> write);

  /// Blocks until everything is written. Throws Error{resource} if that failed.
  void wait();

 private:
  CheckpointStore store_;
  std::thread thread_;
  std::exception_ptr failure_;
};

/// Writes files of a checkpoint into `folder`, durably. Returns their sizes and checksums.
Manifest write_files(const std::filesystem::path& folder, const CheckpointFiles& files);

/// Writes named arrays as a safetensors file, durably.
FileSum write_arrays(const std::filesystem::path& file, const Fields& arrays,
                     const std::map<std::string, std::string>& metadata = {});

/// Reads a safetensors file; the arrays are copies. With `sums`, refuses a tensor whose checksum is wrong.
Fields read_arrays(const std::filesystem::path& file, bool sums = true);

}  // namespace tutti::engine
