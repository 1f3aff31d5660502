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

LoadedParts::LoadedParts(std::size_t most, std::function<Columns(std::size_t)> load)
    : most_(most), load_(std::move(load)), thread_(start_thread("reads files ahead", [this] { read_ahead(); })) {}

LoadedParts::~LoadedParts() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  thread_.join();
}

void LoadedParts::expect(std::vector<std::size_t> order) {
  {
    const std::lock_guard lock(mutex_);
    order_ = std::move(order);
    places_.clear();
    for (std::size_t i = 0; i < order_.size(); ++i) places_.emplace(order_[i], i);
    for (auto& [part, entry] : entries_) entry.requested = entry.awaited = false;
    next_ = 0;
    ahead_ = std::min(std::max<std::size_t>(most_ / 2, 1), order_.size());
  }
  wanted_.notify_all();
}

std::shared_ptr<const LoadedParts::Columns> LoadedParts::get(std::size_t part) { return fetch(part, false); }

/// Called at the first request for `part` since expect(): lets later parts be read ahead. The lock is held.
void LoadedParts::advance_to(std::size_t part) {
  const auto place = places_.find(part);
  if (place == places_.end()) return;
  const std::size_t after = place->second + 1;
  next_ = std::max(next_, after);
  ahead_ = std::max(ahead_, std::min(after + std::max<std::size_t>(most_ / 2, 1), order_.size()));
  wanted_.notify_all();
}

/// Removes the least recently used part if the cache is full. Parts that were read ahead and not requested yet are
/// removed only if there are no others. The lock is held.
void LoadedParts::make_room() {
  const auto earlier = [](const auto& a, const auto& b) {
    return std::pair(a.second.awaited, a.second.used) < std::pair(b.second.awaited, b.second.used);
  };
  while (entries_.size() >= most_) entries_.erase(std::min_element(entries_.begin(), entries_.end(), earlier));
}

LoadedParts::Pointer LoadedParts::fetch(std::size_t part, bool ahead) {
  std::promise<Pointer> promise;
  {
    std::unique_lock lock(mutex_);
    const auto found = entries_.find(part);
    if (!ahead && (found == entries_.end() || !found->second.requested)) advance_to(part);
    if (found != entries_.end()) {
      Entry& entry = found->second;
      entry.used = ++clock_;
      entry.requested |= !ahead;
      entry.awaited = !entry.requested;
      const std::shared_future<Pointer> columns = entry.columns;
      lock.unlock();
      return columns.get();
    }
    make_room();
    entries_[part] = {promise.get_future().share(), !ahead, ahead, ++clock_};
    seen_ = std::max<std::size_t>(seen_, entries_.size());
    ++loads_;
  }
  try {
    auto columns = std::make_shared<const Columns>(load_(part));
    promise.set_value(columns);
    return columns;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    entries_.erase(part);
    throw;
  }
}

void LoadedParts::read_ahead() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [&] { return stopping_ || next_ < ahead_; });
    if (stopping_) return;
    const std::size_t part = order_[next_++];
    lock.unlock();
    try {
      fetch(part, true);
    } catch (...) {  // get() will report the error
    }
    lock.lock();
  }
}

}  // namespace tutti::engine
