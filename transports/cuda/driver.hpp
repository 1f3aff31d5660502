// What the CUDA module's files share: errors as Error, the current device, and the driver's own functions.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "transports/core/status.hpp"

namespace tutti::cuda {

/// Throws Error where `result` is one, with what was tried and what to do.
void check(cudaError_t result, const char* what, int device);

/// Why there are no devices, as a clause; empty: there are.
std::string why_none();

/// Whether a device does nothing more once this has come up.
bool is_fatal(cudaError_t error) noexcept;
/// Of such an error: a sentence.
std::string fatal_text(cudaError_t error, int device);

/// Makes a device the thread's current one, until it goes.
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

/// Ends something that belongs to a device, which is current meanwhile: a thread that has none would take the first one
/// for it. Never throws.
template <class End>
void end_on(int device, const End& end) noexcept {
  try {
    const Current current(device);
    end();
  } catch (const Error&) {  // the device does nothing more, and its memory goes with the process
  }
}

/// Functions that only the driver's library has; null where this driver has not got one. That library is not linked.
struct Driver {
  CUresult (*range_of)(CUdeviceptr*, std::size_t*, CUdeviceptr) = nullptr;
  CUresult (*attribute_of)(void*, CUpointer_attribute, CUdeviceptr) = nullptr;
  CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
};
const Driver& driver();

}  // namespace tutti::cuda
