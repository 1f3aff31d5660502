// The files that an Hdf5Dataset keeps open or in memory: the most recently used ones.
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

/// A cache of at most `most` whole files in memory. A background thread reads the next expected file ahead. Any thread.
class LoadedFiles {
 public:
  using Columns = std::vector<Array>;
  LoadedFiles(std::size_t most, std::function<Columns(std::size_t)> load);
  ~LoadedFiles();
  LoadedFiles(const LoadedFiles&) = delete;
  LoadedFiles& operator=(const LoadedFiles&) = delete;

  /// Blocks until the file has been read. Rethrows the error of reading it; the next call then tries again.
  std::shared_ptr<const Columns> get(std::size_t file);
  /// The order in which the files will be requested.
  void expect(std::vector<std::size_t> order);
  std::size_t most() const noexcept { return seen_; }
  std::size_t loads() const noexcept { return loads_; }

 private:
  using Pointer = std::shared_ptr<const Columns>;
  struct Entry {
    std::shared_future<Pointer> columns;
    std::size_t used = 0;
  };
  Pointer fetch(std::size_t file);
  void make_room();
  void read_ahead();

  const std::size_t most_;
  const std::function<Columns(std::size_t)> load_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::map<std::size_t, Entry> entries_;
  std::vector<std::size_t> order_;
  std::size_t at_ = 0;     // index in order_ of the last request
  std::size_t ahead_ = 0;  // files before this index in order_ are to be read ahead
  std::size_t clock_ = 0;
  std::atomic<std::size_t> seen_{0}, loads_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tutti::engine
