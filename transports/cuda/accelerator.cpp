#include "transports/cuda/accelerator.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "transports/cuda/driver.hpp"
#include "transports/cuda/kernels.hpp"

namespace tutti::cuda {
namespace {

cudaStream_t raw(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle); }
cudaEvent_t raw(const Event& event) { return static_cast<cudaEvent_t>(event.handle); }

bool mps_runs() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(folder ? folder : "/tmp/nvidia-mps") / "control", error);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "ask for an attribute", device);
  return value;
}

DeviceInfo info_of(int device) {
  cudaDeviceProp all{};
  check(cudaGetDeviceProperties(&all, device), "ask for properties", device);
  DeviceInfo info;
  info.name = all.name;
  for (const char byte : all.uuid.bytes) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    info.uuid += text;
  }
  info.compute = std::to_string(all.major) + "." + std::to_string(all.minor);
  info.bytes = all.totalGlobalMem;
  info.processors = all.multiProcessorCount;
  info.shares_memory = attribute(cudaDevAttrIpcEventSupport, device) != 0;
  const bool alone = attribute(cudaDevAttrComputeMode, device) != cudaComputeModeDefault;
  info.sharing = mps_runs() ? "MPS" : alone ? "one process at a time" : "time slices";
  return info;
}

// Launches every kernel once, with no work, so that it is loaded whatever CUDA_MODULE_LOADING says.
void launch_each_kernel(int device, cudaStream_t stream) {
  const auto launched = [&](cudaError_t result) {
    if (result != cudaErrorNotSupported) check(result, "load kernels", device);
  };
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (int o = 0; o < op_count; ++o)
      for (const double divisor : {1.0, 2.0}) {
        FoldCall nothing;
        nothing.count = 2;
        nothing.divisor = divisor;
        launched(fold(dtype, static_cast<Op>(o), nothing, 1, stream));
      }
    launched(scale(dtype, ScaleCall{}, 1, stream));
  }
  check(cudaStreamSynchronize(stream), "load kernels", device);
}

}  // namespace

// CUDA loads a kernel at its first use, and may then wait for all work on the device. If a stream waits for a gate that
// the launching thread is to open later, that is a deadlock. So kernels are loaded before the first stream or gate of
// the device is made.
void CudaAccelerator::load_kernels(int device) {
  std::call_once(loaded_.at(static_cast<std::size_t>(device)), [&] {
    const Current current(device);
    cudaStream_t stream{};
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream", device);
    try {
      launch_each_kernel(device, stream);
    } catch (...) {
      cudaStreamDestroy(stream);
      throw;
    }
    cudaStreamDestroy(stream);
  });
}

CudaAccelerator::CudaAccelerator() : why_not_(why_none()) {
  int count = 0;
  if (!why_not_.empty() || cudaGetDeviceCount(&count) != cudaSuccess) return;
  for (int device = 0; device < count; ++device) devices_.push_back(info_of(device));
  loaded_.resize(devices_.size());
}

// ---- memory -------------------------------------------------------------------------------------

void CudaAccelerator::with_current(int device, const std::function<void()>& what) {
  const Current current(device);
  what();
}

Device CudaAccelerator::device_of(const void* memory) const {
  cudaPointerAttributes about{};
  if (!why_not_.empty() || cudaPointerGetAttributes(&about, memory) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  const bool on_device = about.type == cudaMemoryTypeDevice || about.type == cudaMemoryTypeManaged;
  return on_device ? Device{Device::Kind::cuda, about.device} : Device{};
}

std::shared_ptr<void> CudaAccelerator::allocate(int device, std::size_t bytes) {
  const Current current(device);
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "allocate memory", device);
  return {memory, [device](void* one) { end_on(device, [one] { cudaFree(one); }); }};
}

std::shared_ptr<void> CudaAccelerator::allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable), "pin host memory", 0);
  return {memory, [](void* one) { cudaFreeHost(one); }};
}

std::shared_ptr<void> CudaAccelerator::pin(void* memory, std::size_t bytes) {
  check(cudaHostRegister(memory, bytes, cudaHostRegisterPortable), "pin host memory", 0);
  return {memory, [](void* one) { cudaHostUnregister(one); }};
}

// ---- streams and events -------------------------------------------------------------------------

Stream CudaAccelerator::make_stream(int device, bool urgent) {
  load_kernels(device);
  const Current current(device);
  int least = 0, most = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &most), "ask for priorities", device);
  cudaStream_t made{};
  check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, urgent ? most : least), "make a stream", device);
  return {made, device};
}

void CudaAccelerator::destroy(const Stream& stream) noexcept { cudaStreamDestroy(raw(stream)); }

void CudaAccelerator::synchronize(const Stream& stream) {
  const Current current(stream.device);
  check(cudaStreamSynchronize(raw(stream)), "wait for a stream", stream.device);
}

Event CudaAccelerator::make_event(int device) {
  const Current current(device);
  cudaEvent_t made{};
  check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "make an event", device);
  return {made, device};
}

void CudaAccelerator::destroy(const Event& event) noexcept { cudaEventDestroy(raw(event)); }

void CudaAccelerator::record(const Event& event, const Stream& stream) {
  const Current current(stream.device);
  check(cudaEventRecord(raw(event), raw(stream)), "record an event", stream.device);
}

void CudaAccelerator::wait(const Stream& stream, const Event& event) {
  const Current current(stream.device);
  check(cudaStreamWaitEvent(raw(stream), raw(event), 0), "let a stream wait", stream.device);
}

bool CudaAccelerator::query(const Event& event) {
  const cudaError_t result = cudaEventQuery(raw(event));
  if (result == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(result, "look at an event", event.device);
  return true;
}

void CudaAccelerator::synchronize(const Event& event) {
  check(cudaEventSynchronize(raw(event)), "wait for an event", event.device);
}

void CudaAccelerator::copy(const Stream& stream, void* into, const void* from, std::size_t bytes) {
  const Current current(stream.device);
  check(cudaMemcpyAsync(into, from, bytes, cudaMemcpyDefault, raw(stream)), "copy", stream.device);
}

// ---- work ---------------------------------------------------------------------------------------

void CudaAccelerator::zero(const Stream& stream, void* memory, std::size_t bytes) {
  const Current current(stream.device);
  check(cudaMemsetAsync(memory, 0, bytes, raw(stream)), "clear memory", stream.device);
}

void CudaAccelerator::fold(const Stream& stream, const Fold& fold, std::span<std::byte* const> into,
                           std::span<const std::byte* const> sources, std::size_t bytes) {
  if (std::max(into.size(), sources.size()) > most_folded)
    throw Error(Code::unsupported, "a fold takes " + std::to_string(most_folded) + " sources and places at most");
  if (bytes == 0 || sources.empty() || into.empty()) return;
  if (sources.size() == 1) {
    for (std::byte* const one : into)
      if (one != sources[0]) copy(stream, one, sources[0], bytes);
    return;
  }
  const Current current(stream.device);
  const int processors = devices_[static_cast<std::size_t>(stream.device)].processors;
  FoldCall call;
  call.elements = bytes / fold.width();
  call.divisor = fold.divisor;
  for (std::byte* const one : into) call.into[call.places++] = one;
  for (const std::byte* const one : sources) call.sources[call.count++] = one;
  check(cuda::fold(fold.dtype, fold.op, call, processors, raw(stream)), "fold", stream.device);
}

void CudaAccelerator::scale(const Stream& stream, DType dtype, std::span<std::byte> into, const std::byte* from,
                            double factor) {
  if (into.empty()) return;
  const Current current(stream.device);
  const ScaleCall call{into.data(), from, into.size() / size_of(dtype), factor};
  check(cuda::scale(dtype, call, devices_[static_cast<std::size_t>(stream.device)].processors, raw(stream)), "scale",
        stream.device);
}

std::unique_ptr<Gate> CudaAccelerator::hold(const Stream& stream) {
  load_kernels(stream.device);
  return gates_.hold(*this, stream);
}

std::string CudaAccelerator::failure(int device) {
  const Current current(device);
  const cudaError_t result = cudaStreamQuery(nullptr);
  cudaGetLastError();
  return is_fatal(result) ? fatal_text(result, device) : std::string();
}

}  // namespace tutti::cuda
