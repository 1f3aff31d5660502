// Accelerator: what collectives need of a device runtime. One is implemented over CUDA (transports/cuda), one over host
// memory for tests. Everything here is opaque: no header of a device library is needed to call it.
//
// Errors: what a runtime refuses is thrown as Error with one line that says what to do: resource where memory ran out,
// unsupported where a device cannot do it, invalid for a wrong argument, internal for an earlier failure on the device.
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

#include "transports/core/buffer.hpp"
#include "transports/core/fork.hpp"
#include "transports/core/reduce.hpp"
#include "transports/core/status.hpp"

namespace tutti {

/// A queue of work of one device, done in order. Borrowed: `handle` is the runtime's own (a cudaStream_t); null is
/// the device's default stream.
struct Stream {
  void* handle = nullptr;
  int device = 0;
  bool operator==(const Stream&) const = default;
};

/// A point in a stream. Borrowed, as above (a cudaEvent_t); null is no event.
struct Event {
  void* handle = nullptr;
  int device = 0;
  bool operator==(const Event&) const = default;
};

struct DeviceInfo {
  std::string name;
  std::string uuid;     ///< equal in all processes, whatever number they know it by
  std::string compute;  ///< its generation, as its maker counts: "9.0"
  std::size_t bytes = 0;
  int processors = 0;
  bool shares_memory = false;  ///< DeviceSharing works on it
  std::string sharing;         ///< how processes share it, for people: "time slices", "MPS"
};

/// Of device memory: the allocation that an address lies in. `id` is never given to two allocations of a
/// process, so what was cached for a base can be seen to be stale.
struct Allocated {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::uint64_t id = 0;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  virtual std::string_view name() const noexcept = 0;  ///< "cuda"
  /// Why there are no devices, as a clause; empty: there are some.
  virtual std::string why_not() const = 0;
  virtual const std::vector<DeviceInfo>& devices() const = 0;

  /// Runs `what` with the device as the calling thread's current one, as libraries want it that take no device; then
  /// what was current is so again.
  virtual void with_current(int device, const std::function<void()>& what) = 0;

  /// Where memory lives; cpu for what the runtime does not know. Pinned memory is cpu.
  virtual Device device_of(const void* memory) const = 0;

  /// Freed with the last owner, once what was put on streams with it before is done.
  virtual std::shared_ptr<void> allocate(int device, std::size_t bytes) = 0;
  /// Host memory that copies to and from any device run at full speed with.
  virtual std::shared_ptr<void> allocate_pinned(std::size_t bytes) = 0;
  /// Makes such memory of what is there already, whole pages, until the last owner goes.
  virtual std::shared_ptr<void> pin(void* memory, std::size_t bytes) = 0;
};

class DeviceQueues {
 public:
  virtual ~DeviceQueues() = default;

  /// One that does not wait for the default stream, before all others where `urgent`.
  virtual Stream make_stream(int device, bool urgent = false) = 0;
  virtual void destroy(const Stream& stream) noexcept = 0;  ///< what is on it is still done
  virtual void synchronize(const Stream& stream) = 0;       ///< blocks the host

  virtual Event make_event(int device) = 0;
  virtual void destroy(const Event& event) noexcept = 0;
  /// From here on the event means this point of the stream; waits that were put on streams before keep what they meant.
  virtual void record(const Event& event, const Stream& stream) = 0;
  /// What is put on the stream from here on waits for the event; for nothing if that was never recorded.
  virtual void wait(const Stream& stream, const Event& event) = 0;
  virtual bool query(const Event& event) = 0;        ///< whether the stream has got there
  virtual void synchronize(const Event& event) = 0;  ///< blocks the host

  /// Host or device memory, either way round. Host memory that is not pinned must stay as it is until this is done,
  /// and may block the caller.
  virtual void copy(const Stream& stream, void* into, const void* from, std::size_t bytes) = 0;
};

/// Holds a stream back; opened at the latest when it goes. Any thread; opening twice is harmless.
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
  /// As Fold::of() and scale(), bit for bit, on memory that the stream's device reaches, aligned to the element. Every
  /// place in `into` gets the result: a source (exactly), or memory that overlaps none, and no other place.
  /// More than `most_folded` sources or places are refused: Error{unsupported}.
  virtual void fold(const Stream& stream, const Fold& fold, std::span<std::byte* const> into,
                    std::span<const std::byte* const> sources, std::size_t bytes) = 0;
  virtual void scale(const Stream& stream, DType dtype, std::span<std::byte> into, const std::byte* from,
                     double factor) = 0;

  /// What is put on the stream from here on waits until the gate is opened. The host is not blocked, and nothing
  /// spins on the device.
  virtual std::unique_ptr<Gate> hold(const Stream& stream) = 0;

  /// Why the device does no more, as a sentence: an illegal address in the user's kernel, say. Empty: all is well,
  /// as far as is known.
  virtual std::string failure(int device) = 0;
};

/// What goes to another process of the host as it stands.
struct MemoryHandle {
  std::array<std::byte, 64> bytes{};
};

class DeviceSharing {
 public:
  virtual ~DeviceSharing() = default;

  /// Of device memory of this process; throws Error{invalid} for other memory.
  virtual Allocated allocation_of(const void* memory) const = 0;
  /// Of a whole allocation, by its base.
  virtual MemoryHandle share(const Allocated& allocation) = 0;
  /// In another process: where the allocation's base is seen from `device`. Opening one twice is the caller's to
  /// avoid; close() after everything that uses it is done, and before the owner frees it.
  virtual std::byte* open(const MemoryHandle& handle, int device) = 0;
  virtual void close(std::byte* base) noexcept = 0;

  /// Whether kernels and copies of `device` reach memory of `peer`, which is enabled if so.
  virtual bool reach(int device, int peer) = 0;
};

class Accelerator : public DeviceMemory, public DeviceQueues, public DeviceWork, public DeviceSharing {};

/// A stream or an event that is destroyed with its owner; not in a forked child, as the device is the parent's.
/// Movable.
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
