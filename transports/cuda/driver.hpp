// Shared by the CUDA module's files: CUDA errors as Error, the current device, and functions of the driver API.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "tutti/status.hpp"

namespace tutti::cuda {

/// Throws Error if `result` is an error; the text says what failed and what to do.
void check(cudaError_t result, const char* what, int device);

/// The reason why there is no device, as a clause; empty if there is one.
std::string why_none();

/// True if the device cannot be used any more after this error.
bool is_fatal(cudaError_t error) noexcept;
/// The text for a fatal error: what happened, and what to do next.
std::string fatal_text(cudaError_t error, int device);

/// Sets the calling thread's current device; the destructor restores the previous one.
class Current {
 public:
  explicit Current(int device) {
    cudaGetDevice(&before_);
    if (before_ != device) check(cudaSetDevice(device), "choose", device);
    changed_ = before_ != device;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// Runs `end` with `device` as the current device. (A thread that has set no device uses device 0.) Ignores an Error.
template <class End>
void end_on(int device, const End& end) noexcept {
  try {
    const Current current(device);
    end();
  } catch (const Error&) {  // the device has failed for good; its memory is freed with the process
  }
}

/// Functions of the driver API; null if this driver lacks them. The driver library is not linked.
struct Driver {
  CUresult (*range_of)(CUdeviceptr*, std::size_t*, CUdeviceptr) = nullptr;
  CUresult (*attribute_of)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
  CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
};
const Driver& driver();

}  // namespace tutti::cuda
