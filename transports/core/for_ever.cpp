#include "transports/core/for_ever.hpp"

#include <mutex>
#include <vector>

namespace tutti {

void remember_for_ever(const void* address) {
  static auto& mutex = *new std::mutex;  // others may still come when the program ends
  static auto& addresses = *new std::vector<const void*>;
  const std::lock_guard lock(mutex);
  addresses.push_back(address);
}

}  // namespace tutti
