#include "transports/cuda/driver.hpp"

#include "tutti/status.hpp"

namespace tutti::cuda {

bool is_fatal(cudaError_t error) noexcept {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

std::string fatal_text(cudaError_t error, int device) {
  return "device " + std::to_string(device) + " does no more (" + cudaGetErrorString(error) +
         "): a kernel of the program failed before this; end the process, and look for the kernel with "
         "compute-sanitizer";
}

namespace {

std::string next_step(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidDevice: return "devices count from 0, of those that CUDA_VISIBLE_DEVICES leaves";
    case cudaErrorInvalidResourceHandle:
      return "is the stream that the call was given one of this device, and not destroyed yet?";
    case cudaErrorInvalidValue:
      return "is the buffer memory of this device, as long as the call says, and not freed yet?";
    case cudaErrorAlreadyMapped:
      return "another library of this process has opened that memory; leave cudaipc out of TUTTI_DEVICE_BACKENDS";
    case cudaErrorHostMemoryAlreadyRegistered: return "something in this process has pinned that memory already";
    case cudaErrorNotSupported: return "the setting device_backends, left empty, leaves such calls to staging";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureImplicit: return "call it outside of the capture of a graph";
    default: return "compute-sanitizer names the call, and nvidia-smi says how the device is";
  }
}

}  // namespace

void check(cudaError_t result, const char* what, int device) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears the error unless it is sticky
  if (is_fatal(result)) throw Error(Code::internal, fatal_text(result, device));
  const std::string place = "device " + std::to_string(device);
  if (result == cudaErrorMemoryAllocation)
    throw Error(Code::resource, std::string("no memory left to ") + what + " on " + place +
                                    "; free some there, use smaller buffers, or let fewer processes share it");
  if (result == cudaErrorDevicesUnavailable)
    throw Error(Code::unsupported, place +
                                       " is busy, or takes one process at a time; nvidia-smi -q -d COMPUTE says "
                                       "which, and nvidia-smi -c DEFAULT, or MPS, lets several in");
  throw Error(Code::invalid, std::string("CUDA refuses to ") + what + " on " + place + ": " +
                                 cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + "); " +
                                 next_step(result));
}

std::string why_none() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (result == cudaSuccess && count > 0) return {};
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "this host has no NVIDIA driver";
  const auto text = [](int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); };
  if (result == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is for CUDA " + text(version) + ", and this build wants " + text(CUDART_VERSION);
  if (result == cudaSuccess || result == cudaErrorNoDevice)
    return "the NVIDIA driver shows no device; look at CUDA_VISIBLE_DEVICES, and at nvidia-smi";
  return std::string("the NVIDIA driver does not answer: ") + cudaGetErrorString(result);
}

const Driver& driver() {
  static const Driver functions = [] {
    Driver found;
    const auto take = [](const char* name, auto& function) {
      void* address = nullptr;
      cudaDriverEntryPointQueryResult answer{};
      if (cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &answer) == cudaSuccess &&
          answer == cudaDriverEntryPointSuccess)
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
      cudaGetLastError();
    };
    take("cuMemGetAddressRange", found.range_of);
    take("cuPointerGetAttribute", found.attribute_of);
    take("cuStreamWaitValue32", found.wait_value);
    return found;
  }();
  return functions;
}

}  // namespace tutti::cuda
