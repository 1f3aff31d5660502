// Arithmetic in registers, which does not disturb the caches.
#include "tools/bench/compute.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

void work(std::int64_t steps) {
  double value = 1;
  for (std::int64_t i = 0; i < steps; ++i) value = value * 0.999 + 0.5;
  volatile double kept = value;  // keeps the compiler from removing the loop
  (void)kept;
}

}  // namespace

Compute::Compute(bool idle) : idle_(idle) {
  if (idle) return;
  constexpr std::int64_t steps = 200'000;
  double fastest = 1e18;
  for (int i = 0; i < 20; ++i) {  // the fastest run is one that no other thread disturbed
    const auto start = Clock::now();
    work(steps);
    fastest = std::min(fastest, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  steps_per_nanosecond_ = static_cast<double>(steps) / fastest;
}

void Compute::operator()() const {
  if (idle_)
    std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(nanoseconds_));
  else
    work(static_cast<std::int64_t>(nanoseconds_ * steps_per_nanosecond_));
}

}  // namespace tutti::bench
