#include "collectives/owners.hpp"

#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {
namespace {

// Lives for as long as the process: a thread may still be at it when the program ends.
struct Leaving {
  std::mutex mutex;
  std::vector<std::shared_ptr<const void>> owners;
  bool has_thread = false;  // which goes when nothing is left
};

Leaving& leaving() {
  static auto& one = *new Leaving;
  return one;
}

void let_all_go() {
  Leaving& here = leaving();
  std::vector<std::shared_ptr<const void>> owners;
  while (true) {
    owners.clear();
    const std::lock_guard lock(here.mutex);
    owners.swap(here.owners);
    here.has_thread = !owners.empty();
    if (owners.empty()) return;
  }
}

}  // namespace

void let_go_elsewhere(std::shared_ptr<const void> owner) noexcept {
  if (!owner || owner.use_count() == 0) return;
  Leaving& here = leaving();
  const std::lock_guard lock(here.mutex);
  here.owners.push_back(std::move(owner));
  if (std::exchange(here.has_thread, true)) return;
  try {
    std::thread(let_all_go).detach();
  } catch (const std::system_error&) {  // no thread to be had: the next one tries again
    here.has_thread = false;
  }
}

}  // namespace tutti
