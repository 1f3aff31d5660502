// Site: where a network's tensors live, on the host or on a device, and how what is computed there and collectives come
// after one another.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "collectives/api/communicator.hpp"

namespace tutti::nn {

/// LibTorch on one device: how its tensors see the device's memory, and when its computing is done. Calls are about the
/// calling thread's computing; one thread at a time.
class Compute {
 public:
  virtual ~Compute() = default;
  virtual at::Device device() const = 0;  ///< of its tensors
  /// Where tensors find memory that the accelerator allocated.
  virtual void* seen(void* memory) const { return memory; }
  /// From here on `event` means what has been computed so far.
  virtual void record(const Event& event) = 0;
  /// What is computed from here on waits for `event`.
  virtual void follow(const Event& event) = 0;
};

/// Whether this LibTorch was built with CUDA, and how many devices it sees.
bool torch_has_cuda();
int torch_cuda_devices();

/// Over LibTorch's current stream of a CUDA device. Throws Error{unsupported} where LibTorch has no CUDA.
std::shared_ptr<Compute> cuda_compute(int device);

/// Threads: one at a time.
class Site {
 public:
  Site() = default;  ///< the CPU
  Site(Accelerator& gpu, int device, std::shared_ptr<Compute> compute);

  bool on_cpu() const noexcept { return gpu_ == nullptr; }
  Device where() const noexcept { return where_; }  ///< of buffers
  at::Device tensors() const { return on_cpu() ? at::Device(at::kCPU) : compute_->device(); }
  std::string describe() const;  ///< "the CPU", "device 0 (NVIDIA H100)"
  Accelerator& gpu() const noexcept { return *gpu_; }
  Compute& compute() const noexcept { return *compute_; }

  /// Memory that the communicator's calls are fastest with; and any memory, for a call or two.
  std::shared_ptr<std::byte> allocate(Communicator& communicator, std::size_t bytes) const;
  std::shared_ptr<std::byte> scratch(std::size_t bytes) const;
  /// A part of such memory as a tensor, which keeps all of it.
  at::Tensor tensor(const std::shared_ptr<std::byte>& memory, std::size_t offset, at::IntArrayRef sizes,
                    at::ScalarType type) const;

  /// Notes what the calling thread has computed so far: later calls come after it. On the CPU there is nothing to note.
  void note_computed();
  /// Options of a call on memory here: it goes beside what is computed later, after what was noted.
  CallOptions options() const;
  /// Blocks until what was noted is done.
  void wait_for_computed();

 private:
  Accelerator* gpu_ = nullptr;
  Device where_ = {};
  std::shared_ptr<Compute> compute_;
  Owned<Stream> side_;  // where calls begin
  Owned<Event> computed_;
};

/// Of tensors on `device`, which LibTorch computes with. Throws Error{unsupported} for what is neither CPU nor CUDA.
std::shared_ptr<Site> site_of(const at::Device& device, const Communicator& communicator);

}  // namespace tutti::nn
