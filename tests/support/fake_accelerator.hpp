// An accelerator over host memory, for tests: streams are threads that do their tasks in order, copies happen when the
// stream gets there, and device memory cannot be touched by the host, as on a real device.
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

/// Memory handles go between processes of one user; as by a real driver, one is refused where it, or memory that was at
/// its addresses before, is open already. A process that forks makes its streams
/// afterwards. The environment variable FAKE_DEVICES says how many devices there are; else two.
class FakeAccelerator final : public Accelerator {
 public:
  static constexpr std::byte poison{0xdd};  ///< what freed memory is filled with, in processes that still have it open

  explicit FakeAccelerator(int devices);
  ~FakeAccelerator() override;

  // ---- for tests

  /// A kernel of the test's own.
  void run(const Stream& stream, std::function<void()> kernel);
  void delay(const Stream& stream, std::chrono::milliseconds time);
  /// Where kernels find device memory; other memory is where it is.
  std::byte* seen(const void* memory) const;
  /// From here on the device refuses everything, as after an illegal address.
  void break_device(int device, std::string why);
  /// Every task waits for a while before it begins, so that order that nobody saw to shows.
  void stumble(bool on) noexcept { stumbles_ = on; }
  /// No copy and no fold begins meanwhile.
  void stall(bool on) noexcept { stalls_ = on; }
  void allow(std::size_t bytes) noexcept { allowed_ = bytes; }  ///< device memory, all together
  std::size_t pinned_bytes() const noexcept { return pinned_; }
  std::size_t copies() const noexcept { return copies_; }
  /// Read and written by copies and folds, together.
  std::size_t moved_bytes() const noexcept { return moved_; }
  std::size_t used_bytes() const;                                ///< device memory of this process
  std::size_t destroyed() const noexcept { return destroyed_; }  ///< streams and events
  void refuse_reach() noexcept { reaches_ = false; }
  static int current() noexcept;  ///< the calling thread's device
  int open_handles() const;       ///< memory of other processes

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
    int fd = -1;  // -1: another process's
    std::byte* seen = nullptr;
    std::int32_t owner = 0;    // process; 0: this one
    std::uint64_t theirs = 0;  // where that has it
  };
  const Region* find(const void* memory) const;  // mutex_
  std::byte* add(Region region);
  void free(std::byte* base, bool own) noexcept;
  void drain(std::optional<int> device = {}) noexcept;
  std::byte* reserve(std::size_t bytes);  // mutex_
  std::shared_ptr<FakeStream> new_stream(int device);
  FakeStream& stream_of(const Stream& stream);
  void check(int device);
  void wait_out_stall() const;

  std::vector<DeviceInfo> devices_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Region> regions_;                // by base
  std::byte* addresses_ = nullptr;                            // where nobody may touch anything
  std::map<void*, std::shared_ptr<FakeStream>> streams_;      // by handle
  std::vector<std::shared_ptr<FakeStream>> default_streams_;  // by device
  std::map<int, std::string> broken_;
  std::uint64_t next_id_ = 0;
  std::size_t used_ = 0;
  std::atomic<std::size_t> allowed_{std::size_t{1} << 40}, pinned_{0}, copies_{0}, moved_{0}, destroyed_{0};
  std::atomic<bool> stumbles_{false}, stalls_{false}, reaches_{true};
};

/// This process's own.
FakeAccelerator& fake_accelerator();

/// Takes tests to the fake for as long as the process lives.
FakeAccelerator& use_fake_accelerator();

}  // namespace tutti::testing
