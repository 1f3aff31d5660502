// What Hdf5Dataset keeps of its files at a time: the latest few of them, open or in memory.
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

/// Copies of files, in a folder of its own, which goes with it. Any thread.
class FileCache {
 public:
  /// Throws Error{resource} if no folder can be made in `place`; empty: nothing is copied.
  explicit FileCache(const std::filesystem::path& place);
  ~FileCache();
  FileCache(const FileCache&) = delete;
  FileCache& operator=(const FileCache&) = delete;
  /// The copy of file number i, which is made if it is not there; else the file itself. Throws Error{resource}.
  std::filesystem::path local(std::size_t i, const std::filesystem::path& file);

 private:
  std::mutex mutex_;
  std::filesystem::path folder_;
};

/// Whole files in memory, at most so many. A thread of its own reads the next one ahead. Any thread.
class LoadedFiles {
 public:
  using Columns = std::vector<Array>;
  LoadedFiles(std::size_t most, std::function<Columns(std::size_t)> load);
  ~LoadedFiles();
  LoadedFiles(const LoadedFiles&) = delete;
  LoadedFiles& operator=(const LoadedFiles&) = delete;

  /// Waits until the file is read. Rethrows what reading it threw; it is then tried again by the next call.
  std::shared_ptr<const Columns> get(std::size_t file);
  /// The order in which the files will be wanted.
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
  std::size_t at_ = 0;     // in the order: what was asked for last
  std::size_t ahead_ = 0;  // in the order: what is to be read ahead is before this
  std::size_t clock_ = 0;
  std::atomic<std::size_t> seen_{0}, loads_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tutti::engine
