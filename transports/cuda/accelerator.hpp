// CudaAccelerator: the accelerator interface on CUDA's runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tutti/accelerator.hpp"

namespace tutti::cuda {

/// Gates: words of pinned memory for which streams wait. A word is reused after its stream has passed the gate.
class Gates {
 public:
  std::unique_ptr<Gate> hold(Accelerator& gpu, const Stream& stream);

 private:
  class Held;
  struct Word;
  std::shared_ptr<Word> spare(Accelerator& gpu, int device);
  std::mutex mutex_;
  std::vector<std::shared_ptr<Word>> words_;
};

class CudaAccelerator final : public Accelerator {
 public:
  CudaAccelerator();

  // DeviceMemory
  std::string_view name() const noexcept override { return "cuda"; }
  std::string why_not() const override { return why_not_; }
  const std::vector<DeviceInfo>& devices() const override { return devices_; }
  void with_current(int device, const std::function<void()>& what) override;
  Device device_of(const void* memory) const override;
  std::shared_ptr<void> allocate(int device, std::size_t bytes) override;
  std::shared_ptr<void> allocate_pinned(std::size_t bytes) override;
  std::shared_ptr<void> pin(void* memory, std::size_t bytes) override;
  // DeviceQueues
  Stream make_stream(int device, bool urgent) override;
  void destroy(const Stream& stream) noexcept override;
  void synchronize(const Stream& stream) override;
  Event make_event(int device) override;
  void destroy(const Event& event) noexcept override;
  void record(const Event& event, const Stream& stream) override;
  void wait(const Stream& stream, const Event& event) override;
  bool query(const Event& event) override;
  void synchronize(const Event& event) override;
  void copy(const Stream& stream, void* into, const void* from, std::size_t bytes) override;
  // DeviceWork
  void zero(const Stream& stream, void* memory, std::size_t bytes) override;
  void fold(const Stream& stream, const Fold& fold, std::span<std::byte* const> into,
            std::span<const std::byte* const> sources, std::size_t bytes) override;
  void scale(const Stream& stream, DType dtype, std::span<std::byte> into, const std::byte* from,
             double factor) override;
  std::unique_ptr<Gate> hold(const Stream& stream) override;
  std::string failure(int device) override;
  // DeviceSharing
  Allocated allocation_of(const void* memory) const override;
  MemoryHandle share(const Allocated& allocation) override;
  std::byte* open(const MemoryHandle& handle, int device) override;
  void close(std::byte* base) noexcept override;
  bool reach(int device, int peer) override;

 private:
  void load_kernels(int device);

  std::string why_not_;
  std::vector<DeviceInfo> devices_;
  std::deque<std::once_flag> loaded_;  // by device: set when its kernels are loaded
  Gates gates_;
};

}  // namespace tutti::cuda
