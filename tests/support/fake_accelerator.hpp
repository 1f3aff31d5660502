// An accelerator over host memory, for tests: streams are threads that do their tasks in order, copies happen when a
// stream reaches them, and device memory cannot be accessed by the host, as on a real device.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tutti/accelerator.hpp"

namespace tutti::testing {

class FakeStream;

/// Processes of one user can pass memory handles to one another. As with a real driver, a handle is refused if it is
/// open already, or if memory that had the same addresses before is still open. A process that forks makes its streams
/// afterwards. The environment variable FAKE_DEVICES sets the number of devices; default: two.
class FakeAccelerator final : public Accelerator {
 public:
  static constexpr std::byte poison{0xdd};  ///< freed memory is filled with it, for processes that still have it open

  explicit FakeAccelerator(int devices);
  ~FakeAccelerator() override;

  // ---- for tests

  /// Runs a function of the test as a kernel.
  void run(const Stream& stream, std::function<void()> kernel);
  void delay(const Stream& stream, std::chrono::milliseconds time);
  /// Returns the address at which kernels access device memory; other addresses are returned unchanged.
  std::byte* seen(const void* memory) const;
  /// From now on all calls on the device fail, as after an illegal address.
  void break_device(int device, std::string why);
  /// Every task waits for a while before it begins, so that a missing order becomes visible.
  void stumble(bool on) noexcept { stumbles_ = on; }
  /// While it is on, no copy and no fold begins.
  void stall(bool on) noexcept { stalls_ = on; }
  void allow(std::size_t bytes) noexcept { allowed_ = bytes; }  ///< limit of device memory, all devices
  std::size_t pinned_bytes() const noexcept { return pinned_; }
  std::size_t copies() const noexcept { return copies_; }
  /// Bytes that copies and folds have read and written.
  std::size_t moved_bytes() const noexcept { return moved_; }
  std::size_t used_bytes() const;                                ///< device memory of this process
  std::size_t destroyed() const noexcept { return destroyed_; }  ///< number of streams and events
  void refuse_reach() noexcept { reaches_ = false; }
  static int current() noexcept;  ///< the calling thread's device
  int open_handles() const;       ///< number of open allocations of other processes

  // ---- DeviceMemory
  std::string_view name() const noexcept override { return "fake"; }
  std::string why_not() const override { return devices_.empty() ? "FAKE_DEVICES is 0" : ""; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }
  /// See current().
  void with_current(int device, const std::function<void()>& what) override;
  Device device_of(const void* memory) const override;
  std::shared_ptr<void> allocate(int device, std::size_t bytes) override;
  std::shared_ptr<void> allocate_pinned(std::size_t bytes) override;
  std::shared_ptr<void> pin(void* memory, std::size_t bytes) override;
  // ---- DeviceQueues
  Stream make_stream(int device, bool urgent = false) override;
  void destroy(const Stream& stream) noexcept override;
  void synchronize(const Stream& stream) override;
  Event make_event(int device) override;
  void destroy(const Event& event) noexcept override;
  void record(const Event& event, const Stream& stream) override;
  void wait(const Stream& stream, const Event& event) override;
  bool query(const Event& event) override;
  void synchronize(const Event& event) override;
  void copy(const Stream& stream, void* into, const void* from, std::size_t bytes) override;
  // ---- DeviceWork
  void zero(const Stream& stream, void* memory, std::size_t bytes) override;
  void fold(const Stream& stream, const Fold& fold, std::span<std::byte* const> into,
            std::span<const std::byte* const> sources, std::size_t bytes) override;
  void scale(const Stream& stream, DType dtype, std::span<std::byte> into, const std::byte* from,
             double factor) override;
  std::unique_ptr<Gate> hold(const Stream& stream) override;
  std::string failure(int device) override;
  // ---- DeviceSharing
  Allocated allocation_of(const void* memory) const override;
  MemoryHandle share(const Allocated& allocation) override;
  std::byte* open(const MemoryHandle& handle, int device) override;
  void close(std::byte* base) noexcept override;
  bool reach(int device, int peer) override;

 private:
  struct Region {
    Allocated place;
    int device = 0;
    int fd = -1;  // -1: of another process
    std::byte* seen = nullptr;
    std::int32_t owner = 0;    // its process; 0: this one
    std::uint64_t theirs = 0;  // its address in the owner
  };
  const Region* find(const void* memory) const;  // needs mutex_
  std::byte* add(Region region);
  void free(std::byte* base, bool own) noexcept;
  void drain(std::optional<int> device = {}) noexcept;
  std::byte* reserve(std::size_t bytes);  // needs mutex_
  std::shared_ptr<FakeStream> new_stream(int device);
  FakeStream& stream_of(const Stream& stream);
  void check(int device);
  void wait_out_stall() const;

  std::vector<DeviceInfo> devices_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Region> regions_;                // by base
  std::byte* addresses_ = nullptr;                            // reserved, not accessible
  std::map<void*, std::shared_ptr<FakeStream>> streams_;      // by handle
  std::vector<std::shared_ptr<FakeStream>> default_streams_;  // by device
  std::map<int, std::string> broken_;
  std::uint64_t next_id_ = 0;
  std::size_t used_ = 0;
  std::atomic<std::size_t> allowed_{std::size_t{1} << 40}, pinned_{0}, copies_{0}, moved_{0}, destroyed_{0};
  std::atomic<bool> stumbles_{false}, stalls_{false}, reaches_{true};
};

/// The fake accelerator of this process.
FakeAccelerator& fake_accelerator();

/// Makes tests use the fake until the process ends.
FakeAccelerator& use_fake_accelerator();

}  // namespace tutti::testing
