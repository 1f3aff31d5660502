// Memories: memory of Communicator::allocate, registered with one device for its lifetime.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "transports/ibverbs/handles.hpp"
#include "tutti/buffer.hpp"

namespace tutti::ibverbs {

/// Once any part of such a memory was offered to a peer, that peer can write to all of it, as to shared memory within a
/// host. Any thread.
class Memories : public std::enable_shared_from_this<Memories> {
 public:
  explicit Memories(ibv_pd* domain) : domain_(domain) {}

  /// Registers the memory until the result is dropped, or close(). If it cannot be registered, returns it unchanged.
  std::shared_ptr<void> keep(std::shared_ptr<void> memory, std::size_t bytes);
  /// The region that contains all of `bytes`; null if there is none.
  const ibv_mr* find(ConstBytes bytes) const noexcept;
  /// Deregisters everything; called before the device is closed.
  void close() noexcept;

 private:
  void drop(const std::byte* memory) noexcept;

  mutable std::mutex mutex_;
  ibv_pd* domain_;  // null after close()
  std::map<const std::byte*, Region, std::greater<>> regions_;
};

}  // namespace tutti::ibverbs
