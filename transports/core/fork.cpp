// The registry behind fork.hpp: one set of pthread_atfork handlers for the whole library.
#include "tutti/fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace tutti {
namespace {

struct Guard {
  std::mutex mutex;
  std::vector<int> descriptors;
  std::atomic<std::uint32_t> generation{0};
};

Guard& guard() {
  static Guard* const instance = new Guard;  // never destroyed: fork handlers outlive static objects
  return *instance;
}

// The mutex is held across the fork, so that the child sees a consistent list.
void before_fork() { guard().mutex.lock(); }

void after_fork_in_parent() { guard().mutex.unlock(); }

void after_fork_in_child() {
  // Only async-signal-safe operations: close() and stores. The vector keeps its memory.
  for (const int fd : guard().descriptors) ::close(fd);
  guard().descriptors.clear();
  guard().generation.fetch_add(1, std::memory_order_relaxed);
  guard().mutex.unlock();
}

void install_once() {
  static const int installed = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  static_cast<void>(installed);  // fails only without memory; children then inherit the descriptors
}

}  // namespace

void fork_guard_add(int fd) {
  install_once();
  const std::lock_guard lock(guard().mutex);
  guard().descriptors.push_back(fd);
}

bool fork_guard_remove(int fd) noexcept {
  const std::lock_guard lock(guard().mutex);
  auto& descriptors = guard().descriptors;
  const auto found = std::find(descriptors.begin(), descriptors.end(), fd);
  if (found == descriptors.end()) return false;
  *found = descriptors.back();
  descriptors.pop_back();
  return true;
}

std::uint32_t fork_generation() noexcept {
  install_once();
  return guard().generation.load(std::memory_order_relaxed);
}

}  // namespace tutti
