// Floats on a fake device, which a test writes and reads.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/fake_accelerator.hpp"

namespace tutti::testing {

class Floats {
 public:
  Floats(FakeAccelerator& gpu, int device, const std::vector<float>& values)
      : gpu_(gpu), device_(device), count_(values.size()), memory_(gpu.allocate(device, count_ * sizeof(float) + 1)) {
    if (count_ > 0) std::memcpy(gpu.seen(memory_.get()), values.data(), count_ * sizeof(float));
  }
  Buffer buffer() const { return {memory_.get(), count_, DType::f32, {Device::Kind::cuda, device_}}; }
  /// Returns the current values, without waiting for a stream.
  std::vector<float> read() const {
    const auto* const seen = reinterpret_cast<const float*>(gpu_.seen(memory_.get()));
    return {seen, seen + count_};
  }
  /// Returns the values once `stream` has reached this point.
  std::vector<float> read(const Stream& stream) const {
    std::vector<float> values(count_);
    gpu_.copy(stream, values.data(), memory_.get(), count_ * sizeof(float));
    gpu_.synchronize(stream);
    return values;
  }
  /// Runs a kernel that sets all values.
  void fill(const Stream& stream, float value) const {
    auto* const at = reinterpret_cast<float*>(gpu_.seen(memory_.get()));
    gpu_.run(stream, [at, value, n = count_] { std::fill_n(at, n, value); });
  }
  std::shared_ptr<void> take() { return std::move(memory_); }

 private:
  FakeAccelerator& gpu_;
  int device_;
  std::size_t count_;
  std::shared_ptr<void> memory_;
};

}  // namespace tutti::testing
