// Memory and streams of torch tensors.
#include "bindings/torch/memory.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "bindings/torch/backend.hpp"

namespace tutti::torch_binding {
namespace {

class Shared final : public c10::Allocator {
 public:
  explicit Shared(Communicator communicator) : communicator_(std::move(communicator)) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::kCPU)};
    using Memory = Allocation<std::byte>;
    auto* const memory = new Memory(communicator_.allocate<std::byte>(bytes));
    return {memory->data(), memory, [](void* one) { delete static_cast<Memory*>(one); }, c10::Device(c10::kCPU)};
  }

  void copy_data(void* into, const void* from, std::size_t bytes) const override {
    default_copy_data(into, from, bytes);
  }

 private:
  Communicator communicator_;
};

}  // namespace

Stream current_stream(c10::Device device) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return {reinterpret_cast<void*>(stream.native_handle()), device.index()};
}

std::shared_ptr<c10::Allocator> make_allocator(const Communicator& communicator) {
  return std::make_shared<Shared>(communicator);
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator() { return make_allocator(group_->communicator()); }

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK(options.device().is_cpu(), "tutti: allocate_tensor: only for cpu, not for ", options.device());
  const std::size_t bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
  const std::shared_ptr<c10::Allocator> allocator = make_allocator(group_->communicator());
  c10::DataPtr memory = allocator->allocate(bytes);
  void* const data = memory.get();
  auto* const owner = new c10::DataPtr(std::move(memory));
  return at::from_blob(
      data, {size}, [owner](void*) { delete owner; }, options);
}

}  // namespace tutti::torch_binding
