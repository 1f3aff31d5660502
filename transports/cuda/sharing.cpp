// CudaAccelerator: memory shared between processes, and gates.
#include <cstring>

#include "transports/cuda/accelerator.hpp"
#include "transports/cuda/driver.hpp"

namespace tutti::cuda {

// ---- between processes --------------------------------------------------------------------------

Allocated CudaAccelerator::allocation_of(const void* memory) const {
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const int device = device_of(memory).index;
  if (driver().range_of == nullptr || driver().attribute_of == nullptr)
    throw Error(Code::unsupported, "the NVIDIA driver does not say what an address belongs to; install a newer one");
  const Current current(device);
  CUdeviceptr base = 0;
  Allocated found;
  unsigned long long id = 0;
  if (driver().range_of(&base, &found.bytes, address) != CUDA_SUCCESS ||
      driver().attribute_of(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
    throw Error(Code::invalid, "the address is not in memory of a device that cudaMalloc gave");
  found.base = reinterpret_cast<std::byte*>(base);
  found.id = id;
  return found;
}

MemoryHandle CudaAccelerator::share(const Allocated& allocation) {
  static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(MemoryHandle));
  const int device = device_of(allocation.base).index;
  const Current current(device);
  cudaIpcMemHandle_t made{};
  check(cudaIpcGetMemHandle(&made, allocation.base), "share memory", device);
  MemoryHandle handle;
  std::memcpy(handle.bytes.data(), &made, sizeof made);
  return handle;
}

std::byte* CudaAccelerator::open(const MemoryHandle& handle, int device) {
  const Current current(device);
  cudaIpcMemHandle_t given{};
  std::memcpy(&given, handle.bytes.data(), sizeof given);
  void* base = nullptr;
  check(cudaIpcOpenMemHandle(&base, given, cudaIpcMemLazyEnablePeerAccess), "open another process's memory", device);
  return static_cast<std::byte*>(base);
}

void CudaAccelerator::close(std::byte* base) noexcept {
  end_on(device_of(base).index, [base] { cudaIpcCloseMemHandle(base); });
}

bool CudaAccelerator::reach(int device, int peer) {
  if (device == peer) return true;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, device, peer), "ask about its peer", device);
  if (can == 0) return false;
  const Current current(device);
  const cudaError_t result = cudaDeviceEnablePeerAccess(peer, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return true;
  }
  check(result, "reach its peer", device);
  return true;
}

// ---- gates --------------------------------------------------------------------------------------

struct Gates::Word {
  std::shared_ptr<void> memory;  // takes a whole page; there are few gates
  CUdeviceptr on_device = 0;
  Owned<Event> passed;
  bool held = false;
  volatile std::uint32_t* value() const { return static_cast<volatile std::uint32_t*>(memory.get()); }
};

class Gates::Held final : public Gate {
 public:
  Held(Gates& gates, std::shared_ptr<Word> word) : gates_(gates), word_(std::move(word)) {}
  ~Held() override {
    Held::open();
    const std::lock_guard lock(gates_.mutex_);
    word_->held = false;
  }
  void open() noexcept override { __atomic_store_n(word_->value(), 1u, __ATOMIC_RELEASE); }

 private:
  Gates& gates_;
  const std::shared_ptr<Word> word_;
};

std::shared_ptr<Gates::Word> Gates::spare(Accelerator& gpu, int device) {
  for (const auto& word : words_)
    if (!word->held && (*word->passed).device == device && gpu.query(*word->passed)) return word;
  auto made = std::make_shared<Word>();
  made->memory = gpu.allocate_pinned(sizeof(std::uint32_t));
  void* address = nullptr;
  check(cudaHostGetDevicePointer(&address, made->memory.get(), 0), "reach host memory", device);
  made->on_device = reinterpret_cast<CUdeviceptr>(address);
  made->passed = Owned<Event>(gpu, gpu.make_event(device));
  words_.push_back(made);
  return made;
}

std::unique_ptr<Gate> Gates::hold(Accelerator& gpu, const Stream& stream) {
  if (driver().wait_value == nullptr)
    throw Error(Code::unsupported,
                "the NVIDIA driver cannot let a stream wait for the host; call wait() without a stream");
  const Current current(stream.device);
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Word> word = spare(gpu, stream.device);
  *word->value() = 0;
  if (driver().wait_value(static_cast<CUstream>(stream.handle), word->on_device, 1, CU_STREAM_WAIT_VALUE_GEQ) !=
      CUDA_SUCCESS)
    throw Error(Code::unsupported, "device " + std::to_string(stream.device) +
                                       " cannot let a stream wait for the host; call wait() without a stream");
  word->held = true;
  auto gate = std::make_unique<Held>(*this, word);
  gpu.record(*word->passed, stream);
  return gate;
}

}  // namespace tutti::cuda
