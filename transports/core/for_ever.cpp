#include "transports/core/for_ever.hpp"

#include <mutex>
#include <vector>

namespace tutti {

void remember_for_ever(const void* address) {
  static auto& mutex = *new std::mutex;  // never destroyed: other threads may call this while the program exits
  static auto& addresses = *new std::vector<const void*>;
  const std::lock_guard lock(mutex);
  addresses.push_back(address);
}

}  // namespace tutti
