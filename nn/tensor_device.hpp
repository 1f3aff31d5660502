// TensorDevice: the device on which a network's tensors live, and the order between its kernels and collectives.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "tutti/communicator.hpp"

namespace tutti::nn {

/// LibTorch's current stream on one device. record() and follow() refer to the calling thread's current stream. One
/// thread at a time.
class Compute {
 public:
  virtual ~Compute() = default;
  virtual at::Device device() const = 0;  ///< the device of its tensors
  /// Converts the address of memory of the accelerator to the address that tensors use.
  virtual void* seen(void* memory) const { return memory; }
  /// Records `event` after the kernels launched so far.
  virtual void record(const Event& event) = 0;
  /// Makes the kernels launched from now on wait for `event`.
  virtual void follow(const Event& event) = 0;
};

/// True if this LibTorch was built with CUDA; and the number of devices that it sees.
bool torch_has_cuda();
int torch_cuda_devices();

/// Compute for LibTorch's current stream on a CUDA device. Throws Error{unsupported} if LibTorch was built without
/// CUDA.
std::shared_ptr<Compute> cuda_compute(int device);

/// The device of a network's tensors, with a stream that orders calls after kernels. One thread at a time.
class TensorDevice {
 public:
  TensorDevice() = default;  ///< the CPU
  TensorDevice(Accelerator& gpu, int device, std::shared_ptr<Compute> compute);

  bool on_cpu() const noexcept { return gpu_ == nullptr; }
  Device where() const noexcept { return where_; }  ///< the device of buffers, as the library numbers it
  at::Device tensors() const { return on_cpu() ? at::Device(at::kCPU) : compute_->device(); }
  std::string describe() const;  ///< "the CPU", "device 0 (NVIDIA H100)"
  Accelerator& gpu() const noexcept { return *gpu_; }
  Compute& compute() const noexcept { return *compute_; }

  /// allocate(): memory from the communicator, on which its calls are fastest. scratch(): temporary memory for a few
  /// calls.
  std::shared_ptr<std::byte> allocate(Communicator& communicator, std::size_t bytes) const;
  std::shared_ptr<std::byte> scratch(std::size_t bytes) const;
  /// A tensor over a part of memory from allocate() or scratch(); the tensor keeps the memory alive.
  at::Tensor tensor(const std::shared_ptr<std::byte>& memory, std::size_t offset, at::IntArrayRef sizes,
                    at::ScalarType type) const;

  /// Makes later calls wait for the kernels that the calling thread has launched so far. Does nothing on the CPU.
  void note_computed();
  /// Options for a call on memory of this device: the call starts after the last note_computed() and overlaps kernels
  /// launched later.
  CallOptions options() const;
  /// Blocks until the kernels of the last note_computed() are done.
  void wait_for_computed();

 private:
  Accelerator* gpu_ = nullptr;
  Device where_ = {};
  std::shared_ptr<Compute> compute_;
  Owned<Stream> side_;  // the stream that calls are ordered after
  Owned<Event> computed_;
};

/// The TensorDevice of tensors on `device`. Throws Error{unsupported} if it is neither the CPU nor a CUDA device that
/// the library can use.
std::shared_ptr<TensorDevice> tensor_device_of(const at::Device& device, const Communicator& communicator);

}  // namespace tutti::nn
