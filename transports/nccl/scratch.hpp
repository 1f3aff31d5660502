// Memory of a device that calls need for themselves.
#pragma once

#include <cstddef>
#include <memory>

#include "transports/core/accelerator.hpp"

namespace tutti::nccl {

/// At least so many bytes, for whoever comes next when the last owner goes: freeing memory of a device waits for all
/// that it has to do, and so must not happen where calls make progress, as one of its streams may wait for just that.
/// Throws Error{resource}.
std::shared_ptr<void> spare_memory(Accelerator& accelerator, int device, std::size_t bytes);

/// What calls of one communicator use in turn, as its stream has an order; made by the first that needs it.
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
