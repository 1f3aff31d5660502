// Device memory for temporary use by calls.
#pragma once

#include <cstddef>
#include <memory>

#include "tutti/accelerator.hpp"

namespace tutti::nccl {

/// Device memory of at least `bytes` bytes, returned to a cache when the last owner drops it. It is never freed:
/// cudaFree waits for all work on the device, and that work may wait for the caller. Throws Error{resource}.
std::shared_ptr<void> spare_memory(Accelerator& accelerator, int device, std::size_t bytes);

/// Scratch shared by the calls of one communicator, whose stream orders them. Allocated by the first call that needs
/// it.
class Scratch {
 public:
  static constexpr std::size_t exchange_bytes = 16 << 20;

  Scratch(Accelerator& accelerator, int device) : accelerator_(accelerator), device_(device) {}
  const std::shared_ptr<void>& word() { return made(word_, sizeof(int)); }
  const std::shared_ptr<void>& exchange() { return made(exchange_, exchange_bytes); }

 private:
  const std::shared_ptr<void>& made(std::shared_ptr<void>& one, std::size_t bytes) {
    if (!one) one = spare_memory(accelerator_, device_, bytes);
    return one;
  }
  Accelerator& accelerator_;
  const int device_;
  std::shared_ptr<void> word_, exchange_;
};

}  // namespace tutti::nccl
