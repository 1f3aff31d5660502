#include "transports/core/deferred_release.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/threads.hpp"

namespace tutti {
namespace {

// Never destroyed: the background thread may still run when the program exits.
struct ReleaseQueue {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<const void>> owners;
  std::uint64_t given = 0, gone = 0;  // numbers of objects passed and released so far
  bool has_thread = false;            // the thread ends when the queue is empty
  std::thread::id thread;
};

ReleaseQueue& release_queue() {
  static auto& one = *new ReleaseQueue;
  return one;
}

void release_all() {
  ReleaseQueue& here = release_queue();
  std::vector<std::shared_ptr<const void>> owners;
  while (true) {
    const std::size_t gone = owners.size();
    for (auto& owner : owners) owner.reset();
    owners.clear();
    const std::lock_guard lock(here.mutex);
    here.gone += gone;
    here.changed.notify_all();
    owners.swap(here.owners);
    here.has_thread = !owners.empty();
    here.thread = here.has_thread ? std::this_thread::get_id() : std::thread::id();
    if (owners.empty()) return;
  }
}

}  // namespace

void deferred_release(std::shared_ptr<const void> owner) noexcept {
  if (!owner || owner.use_count() == 0) return;
  ReleaseQueue& here = release_queue();
  const std::lock_guard lock(here.mutex);
  here.owners.push_back(std::move(owner));
  ++here.given;
  if (std::exchange(here.has_thread, true)) return;
  try {
    start_thread("releases memory", release_all).detach();
  } catch (const std::exception&) {  // no thread could be started: the next call retries
    here.has_thread = false;
  }
}

void wait_for_deferred_releases(Deadline until) noexcept {
  ReleaseQueue& here = release_queue();
  std::unique_lock lock(here.mutex);
  if (here.thread == std::this_thread::get_id()) return;
  here.changed.wait_until(lock, until,
                          [&here, target = here.given] { return !here.has_thread || here.gone >= target; });
}

}  // namespace tutti
