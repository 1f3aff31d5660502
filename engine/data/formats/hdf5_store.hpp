// FileCache and LoadedParts, for Hdf5Dataset: copies of files, and parts of files in memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Copies of files in a temporary folder, which is removed by the destructor. Any thread.
class FileCache {
 public:
  /// Creates the folder in `place`; if `place` is empty, nothing is copied. Throws Error{resource}.
  explicit FileCache(const std::filesystem::path& place);
  ~FileCache();
  FileCache(const FileCache&) = delete;
  FileCache& operator=(const FileCache&) = delete;
  /// The path of the copy of file number i, which is created if needed; without a folder, `file` itself. Throws
  /// Error{resource}.
  std::filesystem::path local(std::size_t i, const std::filesystem::path& file);

 private:
  std::mutex mutex_;
  std::filesystem::path folder_;
};

/// A cache of at most `most` parts of files in memory: the most recently used ones, and those that a background thread
/// has read ahead. Any thread.
class LoadedParts {
 public:
  using Columns = std::vector<Array>;
  LoadedParts(std::size_t most, std::function<Columns(std::size_t)> load);
  ~LoadedParts();
  LoadedParts(const LoadedParts&) = delete;
  LoadedParts& operator=(const LoadedParts&) = delete;

  /// Blocks until the part has been read. Rethrows the error of reading it; the next call then tries again.
  std::shared_ptr<const Columns> get(std::size_t part);
  /// The order in which the parts will be requested first. Up to half of `most` are read ahead, and kept until they are
  /// requested.
  void expect(std::vector<std::size_t> order);
  std::size_t most() const noexcept { return seen_; }    ///< maximum number of parts that have been in memory at a time
  std::size_t loads() const noexcept { return loads_; }  ///< how often a part was read

 private:
  using Pointer = std::shared_ptr<const Columns>;
  struct Entry {
    std::shared_future<Pointer> columns;
    bool requested = false;  // since the last call of expect()
    bool awaited = false;    // was read ahead and has not been requested yet
    std::size_t used = 0;
  };
  Pointer fetch(std::size_t part, bool ahead);
  void advance_to(std::size_t part);
  void make_room();
  void read_ahead();

  const std::size_t most_;
  const std::function<Columns(std::size_t)> load_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::map<std::size_t, Entry> entries_;
  std::vector<std::size_t> order_;
  std::map<std::size_t, std::size_t> places_;  // of the parts in order_
  std::size_t next_ = 0;                       // index in order_ of the next part to be read ahead
  std::size_t ahead_ = 0;                      // parts before this index in order_ are to be read ahead
  std::size_t clock_ = 0;
  std::atomic<std::size_t> seen_{0}, loads_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tutti::engine
