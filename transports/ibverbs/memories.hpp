// Memories: what Communicator::allocate gave, registered with one device for as long as it lives.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "transports/core/buffer.hpp"
#include "transports/ibverbs/handles.hpp"

namespace tutti::ibverbs {

/// Peers may write to all of it once it was offered to one of them, as those of a host may to shared memory. Any
/// thread.
class Memories : public std::enable_shared_from_this<Memories> {
 public:
  explicit Memories(ibv_pd* domain) : domain_(domain) {}

  /// The same memory, registered until the result is gone, or close(). Where it cannot be registered, it stays as it
  /// is.
  std::shared_ptr<void> keep(std::shared_ptr<void> memory, std::size_t bytes);
  /// The region that all these bytes are in; null: none.
  const ibv_mr* find(ConstBytes bytes) const noexcept;
  /// The device goes.
  void close() noexcept;

 private:
  void drop(const std::byte* memory) noexcept;

  mutable std::mutex mutex_;
  ibv_pd* domain_;  // null: closed
  std::map<const std::byte*, Region, std::greater<>> regions_;
};

}  // namespace tutti::ibverbs
