// A TensorDevice on the fake accelerator. Tensors are CPU tensors, at addresses where the fake's kernels find memory.
#pragma once

#include <memory>

#include "nn/tensor_device.hpp"
#include "tests/support/fake_accelerator.hpp"

namespace tutti::testing {

/// The host computes at once, but work that follows has to wait for this object's stream, as on a real device.
class FakeCompute final : public nn::Compute {
 public:
  FakeCompute(FakeAccelerator& gpu, int device) : gpu_(gpu), stream_(gpu, gpu.make_stream(device)) {}

  at::Device device() const override { return at::Device(at::kCPU); }
  void* seen(void* memory) const override { return gpu_.seen(memory); }
  void record(const Event& event) override {
    ++recorded_;
    gpu_.record(event, *stream_);
  }
  void follow(const Event& event) override { gpu_.synchronize(event); }

  int recorded() const noexcept { return recorded_; }

 private:
  FakeAccelerator& gpu_;
  Owned<Stream> stream_;
  int recorded_ = 0;
};

inline std::shared_ptr<nn::TensorDevice> fake_tensor_device(FakeAccelerator& gpu, int device) {
  return std::make_shared<nn::TensorDevice>(gpu, device, std::make_shared<FakeCompute>(gpu, device));
}

}  // namespace tutti::testing
