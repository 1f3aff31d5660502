// GPUs for tests: the fake accelerator with a device for each of eight ranks, the fake NCCL on its streams, and buffers
// in their memory.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/fake_accelerator.hpp"
#include "tests/support/fake_nccl/fake_nccl.hpp"
#include "tutti/settings.hpp"

namespace tutti::testing {

/// Returns a function that only the fake NCCL has.
template <class Function>
Function* of_fake_nccl(const char* name) {
  static void* const library = dlopen(TUTTI_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  auto* const found = library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
  if (found == nullptr) throw std::runtime_error(std::string("the fake NCCL: ") + dlerror());
  return found;
}

/// Makes the process use both fakes. Call it before anything asks for an accelerator.
inline FakeAccelerator& use_fake_gpus() {
  static FakeAccelerator& used = []() -> FakeAccelerator& {
    ::setenv("FAKE_DEVICES", "8", 0);
    FakeAccelerator& fake = use_fake_accelerator();
    static const fake_nccl::Runtime runtime = {[](void* stream, std::function<void()> work) {
                                                 fake_accelerator().run({stream, 0}, std::move(work));
                                               },
                                               FakeAccelerator::current,
                                               [](const void* memory) { return fake_accelerator().seen(memory); }};
    of_fake_nccl<void(const fake_nccl::Runtime*)>("fake_nccl_use")(&runtime);
    return fake;
  }();
  return used;
}

/// Settings by which the module nccl finds the fake.
inline Settings with_fake_nccl(Settings settings = {}) {
  use_fake_gpus();
  settings.set("nccl_library", TUTTI_FAKE_NCCL, "test");
  return settings;
}

/// As the device of an OnDevice: the memory is on the host.
inline constexpr int on_host = -1;

/// Bytes on a device or on the host. The test reads and writes them only while no call uses them.
class OnDevice {
 public:
  OnDevice(int device, std::size_t bytes)
      : device_(device), bytes_(bytes), memory_(allocate(device, bytes > 0 ? bytes : 1)) {}
  OnDevice(int device, const std::vector<std::byte>& data) : OnDevice(device, data.size()) { write(data); }

  std::byte* data(std::size_t at = 0) const { return static_cast<std::byte*>(memory_.get()) + at; }
  std::size_t size() const noexcept { return bytes_; }
  Device where() const noexcept { return device_ == on_host ? Device() : Device{Device::Kind::cuda, device_}; }
  Buffer buffer(DType dtype) const { return part(0, bytes_, dtype); }
  Buffer part(std::size_t at, std::size_t bytes, DType dtype) const {
    return {data(at), bytes / size_of(dtype), dtype, where()};
  }

  void write(const std::vector<std::byte>& data) {
    if (!data.empty()) std::memcpy(seen(), data.data(), data.size());
  }
  std::vector<std::byte> read() const { return read(0, bytes_); }
  std::vector<std::byte> read(std::size_t at, std::size_t bytes) const {
    const std::byte* const from = seen() + at;
    return {from, from + bytes};
  }

 private:
  static std::shared_ptr<void> allocate(int device, std::size_t bytes) {
    if (device == on_host) return std::shared_ptr<std::byte[]>(new std::byte[bytes]());
    return use_fake_gpus().allocate(device, bytes);
  }
  std::byte* seen() const { return device_ == on_host ? data() : fake_accelerator().seen(memory_.get()); }

  int device_;
  std::size_t bytes_;
  std::shared_ptr<void> memory_;
};

}  // namespace tutti::testing
