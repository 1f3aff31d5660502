// Accelerator: the part of a device runtime that the collectives need, as an interface. It is implemented with CUDA
// (transports/cuda) and, for tests, with host memory. Handles are opaque, so callers need no device headers.
//
// Errors: every failure of the runtime throws Error with one line that says what to do. The code is resource if memory
// ran out, unsupported if the device cannot do the operation, invalid for a wrong argument, and internal for an earlier
// failure on the device.
// Threads: any. No call depends on, or changes, the caller's current device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/buffer.hpp"
#include "tutti/fork.hpp"
#include "tutti/reduce.hpp"
#include "tutti/status.hpp"

namespace tutti {

/// A device stream: its operations run in order. `handle` is borrowed from the runtime (a cudaStream_t); null is the
/// device's default stream.
struct Stream {
  void* handle = nullptr;
  int device = 0;
  bool operator==(const Stream&) const = default;
};

/// A point in a stream. `handle` is borrowed from the runtime (a cudaEvent_t); null is no event.
struct Event {
  void* handle = nullptr;
  int device = 0;
  bool operator==(const Event&) const = default;
};

struct DeviceInfo {
  std::string name;
  std::string uuid;     ///< equal in all processes, even if they use different indices for the device
  std::string compute;  ///< the compute capability: "9.0"
  std::size_t bytes = 0;
  int processors = 0;
  bool shares_memory = false;  ///< true: DeviceSharing works on it
  std::string sharing;         ///< how processes share it, for people: "time slices", "MPS"
};

/// The device allocation that contains an address. No two allocations of a process get the same `id`, so a cache keyed
/// by `base` can detect stale entries.
struct Allocated {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::uint64_t id = 0;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  virtual std::string_view name() const noexcept = 0;  ///< "cuda"
  /// The reason why there are no devices, as a clause; empty if there are devices.
  virtual std::string why_not() const = 0;
  virtual const std::vector<DeviceInfo>& devices() const = 0;

  /// Runs `what` with `device` as the calling thread's current device, then restores the previous device. For libraries
  /// whose calls take no device argument.
  virtual void with_current(int device, const std::function<void()>& what) = 0;

  /// The device that holds `memory`; cpu for pinned memory and for memory unknown to the runtime.
  virtual Device device_of(const void* memory) const = 0;

  /// Allocates device memory. When the last owner releases it, it is freed after all stream operations that were
  /// enqueued before have completed.
  virtual std::shared_ptr<void> allocate(int device, std::size_t bytes) = 0;
  /// Allocates page-locked host memory, which copies to and from any device at full speed.
  virtual std::shared_ptr<void> allocate_pinned(std::size_t bytes) = 0;
  /// Page-locks existing host memory (whole pages) until the last owner releases it.
  virtual std::shared_ptr<void> pin(void* memory, std::size_t bytes) = 0;
};

class DeviceQueues {
 public:
  virtual ~DeviceQueues() = default;

  /// A stream that does not synchronise with the default stream; `urgent` gives it the highest priority.
  virtual Stream make_stream(int device, bool urgent = false) = 0;
  virtual void destroy(const Stream& stream) noexcept = 0;  ///< operations already enqueued still run
  virtual void synchronize(const Stream& stream) = 0;       ///< blocks the host

  virtual Event make_event(int device) = 0;
  virtual void destroy(const Event& event) noexcept = 0;
  /// Makes the event mark the current end of the stream. Waits that were enqueued before still wait for the old mark.
  virtual void record(const Event& event, const Stream& stream) = 0;
  /// Makes later operations on the stream wait for the event. No effect if the event was never recorded.
  virtual void wait(const Stream& stream, const Event& event) = 0;
  virtual bool query(const Event& event) = 0;        ///< true if the stream has reached the event
  virtual void synchronize(const Event& event) = 0;  ///< blocks the host

  /// Copies between host and device memory in any combination. Pageable host memory must stay unchanged until the copy
  /// completes; with pageable memory the call may block.
  virtual void copy(const Stream& stream, void* into, const void* from, std::size_t bytes) = 0;
};

/// Blocks a stream until open() is called; the destructor opens it. Any thread; opening twice is harmless.
class Gate {
 public:
  virtual ~Gate() = default;
  virtual void open() noexcept = 0;
};

class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  static constexpr std::size_t most_folded = 128;

  virtual void zero(const Stream& stream, void* memory, std::size_t bytes) = 0;
  /// fold() and scale() have the same results as Fold::of() and tutti::scale(), bit for bit. All memory must be
  /// accessible from the stream's device and aligned to the element. fold() writes the result to every destination in
  /// `into`. A destination is either exactly one of the sources, or overlaps no source and no other destination. Throws
  /// Error{unsupported} for more than `most_folded` sources or destinations.
  virtual void fold(const Stream& stream, const Fold& fold, std::span<std::byte* const> into,
                    std::span<const std::byte* const> sources, std::size_t bytes) = 0;
  virtual void scale(const Stream& stream, DType dtype, std::span<std::byte> into, const std::byte* from,
                     double factor) = 0;

  /// Makes later operations on the stream wait until the gate is opened. Neither blocks the host nor spins on the
  /// device.
  virtual std::unique_ptr<Gate> hold(const Stream& stream) = 0;

  /// The sticky error of the device as a sentence, for example an illegal address in a user's kernel. Empty if no error
  /// is known.
  virtual std::string failure(int device) = 0;
};

/// An IPC handle: plain bytes that another process of the same host can open.
struct MemoryHandle {
  std::array<std::byte, 64> bytes{};
};

class DeviceSharing {
 public:
  virtual ~DeviceSharing() = default;

  /// The allocation that contains `memory`, which must be device memory of this process; else throws Error{invalid}.
  virtual Allocated allocation_of(const void* memory) const = 0;
  /// Exports a whole allocation.
  virtual MemoryHandle share(const Allocated& allocation) = 0;
  /// Maps an allocation of another process; returns its base address for `device`. The caller must not open a handle
  /// twice. It must call close() after the last use of the mapping and before the owner frees the memory.
  virtual std::byte* open(const MemoryHandle& handle, int device) = 0;
  virtual void close(std::byte* base) noexcept = 0;

  /// Enables peer access. Returns true if kernels and copies of `device` can access memory of `peer`.
  virtual bool reach(int device, int peer) = 0;
};

class Accelerator : public DeviceMemory, public DeviceQueues, public DeviceWork, public DeviceSharing {};

/// Owns a stream or an event and destroys it. Does not destroy it in a forked child, because the device context belongs
/// to the parent process. Movable.
template <class T>
class Owned {
 public:
  Owned() noexcept = default;
  Owned(Accelerator& of, T one) noexcept : of_(&of), one_(one), generation_(fork_generation()) {}
  Owned(Owned&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), one_(other.one_), generation_(other.generation_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(one_, other.one_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~Owned() {
    if (of_ != nullptr && generation_ == fork_generation()) of_->destroy(one_);
  }
  const T& operator*() const noexcept { return one_; }
  explicit operator bool() const noexcept { return of_ != nullptr; }

 private:
  Accelerator* of_ = nullptr;
  T one_{};
  std::uint32_t generation_ = 0;
};

}  // namespace tutti
