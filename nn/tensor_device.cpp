// Needs no CUDA headers. LibTorch's streams are accessed through its DeviceGuardImplInterface; its CUDA events are
// cudaEvent_t, as the events of the Accelerator.
#include "nn/tensor_device.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace tutti::nn {
namespace {

class CudaCompute final : public Compute {
 public:
  explicit CudaCompute(int device) : device_(at::kCUDA, static_cast<c10::DeviceIndex>(device)), guard_(at::kCUDA) {}

  at::Device device() const override { return device_; }
  void record(const Event& event) override {
    void* handle = event.handle;
    guard_.record(&handle, guard_.getStream(device_), device_.index(), c10::EventFlag::PYTORCH_DEFAULT);
  }
  void follow(const Event& event) override { guard_.block(event.handle, guard_.getStream(device_)); }

 private:
  const at::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
};

}  // namespace

bool torch_has_cuda() { return c10::impl::hasDeviceGuardImpl(at::kCUDA); }

int torch_cuda_devices() { return torch_has_cuda() ? c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() : 0; }

std::shared_ptr<Compute> cuda_compute(int device) {
  if (!torch_has_cuda())
    throw Error(Code::unsupported,
                "this LibTorch was built without CUDA; build tutti with -DTUTTI_TORCH=FOLDER of one that has it");
  return std::make_shared<CudaCompute>(device);
}

TensorDevice::TensorDevice(Accelerator& gpu, int device, std::shared_ptr<Compute> compute)
    : gpu_(&gpu),
      where_{Device::Kind::cuda, device},
      compute_(std::move(compute)),
      side_(gpu, gpu.make_stream(device)),
      computed_(gpu, gpu.make_event(device)) {}

std::string TensorDevice::describe() const {
  if (on_cpu()) return "the CPU";
  return "device " + std::to_string(where_.index) + " (" +
         gpu_->devices()[static_cast<std::size_t>(where_.index)].name + ")";
}

std::shared_ptr<std::byte> TensorDevice::allocate(Communicator& communicator, std::size_t bytes) const {
  if (!on_cpu()) return scratch(bytes);
  auto memory = std::make_shared<Allocation<std::byte>>(communicator.allocate<std::byte>(bytes));
  return {memory, memory->data()};
}

std::shared_ptr<std::byte> TensorDevice::scratch(std::size_t bytes) const {
  if (on_cpu()) {
    const auto memory = std::make_shared<at::Tensor>(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte));
    return {memory, static_cast<std::byte*>(memory->data_ptr())};
  }
  const std::shared_ptr<void> memory = gpu_->allocate(where_.index, bytes);
  return {memory, static_cast<std::byte*>(memory.get())};
}

at::Tensor TensorDevice::tensor(const std::shared_ptr<std::byte>& memory, std::size_t offset, at::IntArrayRef sizes,
                                at::ScalarType type) const {
  std::byte* const begin = on_cpu() ? memory.get() : static_cast<std::byte*>(compute_->seen(memory.get()));
  return at::from_blob(
      begin + offset, sizes, [memory](void*) {}, at::TensorOptions().dtype(type).device(tensors()));
}

void TensorDevice::note_computed() {
  if (on_cpu()) return;
  compute_->record(*computed_);
  gpu_->wait(*side_, *computed_);
}

CallOptions TensorDevice::options() const {
  CallOptions options;
  if (!on_cpu()) options.stream = *side_;
  return options;
}

void TensorDevice::wait_for_computed() {
  if (!on_cpu()) gpu_->synchronize(*side_);
}

std::shared_ptr<TensorDevice> tensor_device_of(const at::Device& device, const Communicator& communicator) {
  if (device.is_cpu()) return std::make_shared<TensorDevice>();
  if (!device.is_cuda())
    throw Error(Code::unsupported,
                "tensors on " + device.str() + " cannot be reached: move the module to the CPU, or to a CUDA device");
  Accelerator& gpu = communicator.accelerator();
  if (const std::string why = gpu.why_not(); !why.empty())
    throw Error(Code::unsupported, "the module is on " + device.str() + ", but tutti sees no device: " + why);
  return std::make_shared<TensorDevice>(gpu, device.index(), cuda_compute(device.index()));
}

}  // namespace tutti::nn
