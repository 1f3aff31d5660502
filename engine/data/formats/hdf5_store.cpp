#include "engine/data/formats/hdf5_store.hpp"

#include <stdlib.h>

#include <algorithm>

#include "tutti/status.hpp"
#include "tutti/threads.hpp"

namespace tutti::engine {

namespace fs = std::filesystem;

FileCache::FileCache(const fs::path& place) {
  if (place.empty()) return;
  std::error_code ignored;
  fs::create_directories(place, ignored);
  std::string name = (place / "tutti-cache-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error(Code::resource, place.string() + ": no folder can be made in it; set cache= to a writable folder");
  folder_ = name;
}

FileCache::~FileCache() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

fs::path FileCache::local(std::size_t i, const fs::path& file) {
  if (folder_.empty()) return file;
  const std::lock_guard lock(mutex_);
  const fs::path copy = folder_ / (std::to_string(i) + "-" + file.filename().string());
  if (fs::exists(copy)) return copy;
  const fs::path partial = copy.string() + ".part";
  std::error_code error;
  fs::copy_file(file, partial, error);
  if (!error) fs::rename(partial, copy, error);
  if (error)
    throw Error(Code::resource, file.string() + ": cannot be copied to " + copy.string() + ": " + error.message() +
                                    "; set cache= to a folder with more space, or leave it out");
  return copy;
}

LoadedFiles::LoadedFiles(std::size_t most, std::function<Columns(std::size_t)> load)
    : most_(most), load_(std::move(load)), thread_(start_thread("reads files ahead", [this] { read_ahead(); })) {}

LoadedFiles::~LoadedFiles() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  thread_.join();
}

void LoadedFiles::expect(std::vector<std::size_t> order) {
  {
    const std::lock_guard lock(mutex_);
    order_ = std::move(order);
    at_ = 0;
    ahead_ = std::min<std::size_t>(1, order_.size());
  }
  wanted_.notify_all();
}

std::shared_ptr<const LoadedFiles::Columns> LoadedFiles::get(std::size_t file) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(order_.begin() + static_cast<std::ptrdiff_t>(at_), order_.end(), file);
    if (found != order_.end()) {
      at_ = static_cast<std::size_t>(found - order_.begin());
      ahead_ = std::max(ahead_, std::min(at_ + 2, order_.size()));
    }
  }
  wanted_.notify_all();
  return fetch(file);
}

/// Removes the least recently used file if the cache is full. The lock is held.
void LoadedFiles::make_room() {
  while (entries_.size() >= most_)
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

LoadedFiles::Pointer LoadedFiles::fetch(std::size_t file) {
  std::promise<Pointer> promise;
  {
    std::unique_lock lock(mutex_);
    if (const auto found = entries_.find(file); found != entries_.end()) {
      found->second.used = ++clock_;
      const std::shared_future<Pointer> columns = found->second.columns;
      lock.unlock();
      return columns.get();
    }
    make_room();
    entries_[file] = {promise.get_future().share(), ++clock_};
    seen_ = std::max<std::size_t>(seen_, entries_.size());
    ++loads_;
  }
  try {
    auto columns = std::make_shared<const Columns>(load_(file));
    promise.set_value(columns);
    return columns;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    entries_.erase(file);
    throw;
  }
}

void LoadedFiles::read_ahead() {
  std::unique_lock lock(mutex_);
  for (std::size_t done = 0;;) {
    wanted_.wait(lock, [&] { return stopping_ || done != ahead_; });
    if (stopping_) return;
    done = ahead_;
    if (done == 0) continue;
    const std::size_t file = order_[done - 1];
    lock.unlock();
    try {
      fetch(file);
    } catch (...) {  // get() will report the error
    }
    lock.lock();
  }
}

}  // namespace tutti::engine
