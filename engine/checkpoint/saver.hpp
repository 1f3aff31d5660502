// Saver: writes checkpoints on a thread of its own, while training goes on.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <thread>

#include "engine/checkpoint/store.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// What one checkpoint consists of. The arrays are its own: nobody changes them while they are written.
struct CheckpointFiles {
  std::map<std::string, Fields> tensors;             ///< by file name, in the format safetensors
  std::map<std::string, std::string> texts;          ///< by file name
  std::map<std::string, std::string> metadata = {};  ///< of the files of tensors
};

/// At most one checkpoint is being written. start() and wait() belong to one thread.
class Saver {
 public:
  explicit Saver(CheckpointStore store) : store_(std::move(store)) {}
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Begins to write a checkpoint; first waits for the one before. Throws what that one failed with.
  void start(std::uint64_t step, CheckpointFiles files, bool best);

  /// Returns when everything is written. Throws Error{resource} if it could not be.
  void wait();

 private:
  void write(std::uint64_t step, const CheckpointFiles& files, bool best);

  CheckpointStore store_;
  std::thread thread_;
  std::exception_ptr failure_;
};

/// Writes named arrays as safetensors, durably.
void write_arrays(const std::filesystem::path& file, const Fields& arrays,
                  const std::map<std::string, std::string>& metadata = {});

/// Reads them; the arrays are copies.
Fields read_arrays(const std::filesystem::path& file);

}  // namespace tutti::engine
