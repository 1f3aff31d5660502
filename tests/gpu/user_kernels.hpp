// The kernels with which tests/gpu imitates a program beside tutti. A library of them is opened at run time, by the
// name in TUTTI_TEST_KERNELS, so that the programs build and start without CUDA. user_kernels.cu is such a library, and
// the module of the fake devices is another one.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace tutti::testing {

struct UserKernels {
  /// Puts a kernel on the stream that writes to an invalid address. Returns 0, or an error of the runtime.
  int (*illegal_address)(int device, void* stream);
  /// Computes c = a * b for square matrices of n x n floats; n must be a multiple of 64.
  int (*multiply)(int device, void* stream, const float* a, const float* b, float* c, int n);
};

inline UserKernels user_kernels() {
  const char* const named = std::getenv("TUTTI_TEST_KERNELS");
  if (named == nullptr) throw std::runtime_error("TUTTI_TEST_KERNELS names no library of kernels");
  void* const library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  UserKernels found{};
  const auto find = [&](const char* name, auto*& into) {
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(library, name));
    if (into == nullptr) throw std::runtime_error(std::string(named) + " has no " + name);
  };
  find("user_illegal_address", found.illegal_address);
  find("user_multiply", found.multiply);
  return found;
}

}  // namespace tutti::testing
