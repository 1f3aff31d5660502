// Measures collectives on device memory. Ranks are processes. Rank 0 prints a line for each figure, "figure NAME VALUE
// UNIT [WORDS]", which worlds.py reads.
//
//   gpu_figures BACKEND [BYTES [SIDE [CALLS]]]
//
// BYTES: size of the large allreduce (256 MiB). SIDE: rows of the matrices that are multiplied while allreduces of a
// quarter of BYTES run (4096). CALLS: number of these allreduces; by default it is measured how many are enough. Every
// figure is a median; a call's time is that of the slowest rank. Copies within device memory are measured by rank 0
// alone, while the others wait on the host.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu/user_kernels.hpp"
#include "transports/accelerators.hpp"
#include "tutti/communicator.hpp"

namespace tutti::testing {
namespace {

using Timed = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& what) {
  const auto begin = Timed::now();
  what();
  return std::chrono::duration<double>(Timed::now() - begin).count();
}

double median(std::vector<double> all) {
  std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  return all[all.size() / 2];
}

/// A program's own work beside collectives: products of square matrices, on a stream of their own.
class Products {
 public:
  Products(Accelerator& gpu, int device, int side)
      : gpu_(gpu), device_(device), side_(side), stream_(gpu, gpu.make_stream(device)) {
    for (auto& one : matrices_) {
      one = gpu.allocate(device, bytes());
      gpu.zero(*stream_, one.get(), bytes());
    }
    finish();
  }
  void launch(int times) {
    const auto matrix = [&](std::size_t i) { return static_cast<float*>(matrices_[i].get()); };
    for (int i = 0; i < times; ++i)
      if (kernels_.multiply(device_, (*stream_).handle, matrix(0), matrix(1), matrix(2), side_) != 0)
        throw std::runtime_error("the program's own kernel cannot be launched");
  }
  void finish() { gpu_.synchronize(*stream_); }
  double seconds(int times) {
    return seconds_of([&] { launch(times), finish(); });
  }

 private:
  std::size_t bytes() const {
    return sizeof(float) * static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_);
  }

  Accelerator& gpu_;
  const UserKernels kernels_ = user_kernels();
  const int device_, side_;
  const Owned<Stream> stream_;
  std::array<std::shared_ptr<void>, 3> matrices_;
};

class Measuring {
 public:
  Measuring(Communicator& world, std::size_t bytes, int side, int calls)
      : world_(world), gpu_(accelerator(world.settings())), bytes_(bytes), side_(side), calls_(calls) {
    device_ = device_of_rank(gpu_, world.rank());
    stream_ = Owned<Stream>(gpu_, gpu_.make_stream(device_));
    in_ = gpu_.allocate(device_, bytes);
    out_ = gpu_.allocate(device_, bytes);
    gpu_.zero(*stream_, in_.get(), bytes);
    gpu_.zero(*stream_, out_.get(), bytes);
    gpu_.synchronize(*stream_);
  }

  void everything() {
    const double device = copies(), pinned = transfers();
    const double large = call_of(bytes_, 3, 11), p = world_.size();
    const double moved = static_cast<double>(bytes_) / large;
    say("allreduce_large", large * 1e6, "us");
    say("allreduce_device", 2 * p * moved / device * 100, "%");
    say("allreduce_pinned", p * moved / pinned * 100, "%");
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{65536}})
      say("latency_" + std::to_string(bytes), call_of(std::min(bytes, bytes_), 50, 301) * 1e6, "us");
    beside();
  }

 private:
  void say(const std::string& name, double value, const std::string& unit) const {
    if (world_.rank() == 0) std::printf("figure %s %.3f %s\n", name.c_str(), value, unit.c_str());
    std::fflush(stdout);
  }
  /// Returns what rank 0 measures while the other ranks use no device; the same number on all ranks.
  double alone(const std::function<double()>& what) {
    world_.barrier().wait();
    const double value = world_.rank() == 0 ? what() : 0.0;
    return world_.broadcast(value, 0).wait();
  }
  double rate(void* into, const void* from, std::size_t bytes) {
    constexpr int repeats = 10;
    std::vector<double> times;
    for (int turn = 0; turn < 7; ++turn)
      times.push_back(seconds_of([&] {
        for (int i = 0; i < repeats; ++i) gpu_.copy(*stream_, into, from, bytes);
        gpu_.synchronize(*stream_);
      }));
    return static_cast<double>(bytes) * repeats / median(times);
  }

  /// Returns the bytes per second that copies within the device read and write.
  double copies() {
    const double value = alone([&] { return 2 * rate(out_.get(), in_.get(), bytes_); });
    say("device_copy", value * 1e-9, "GB/s");
    return value;
  }
  /// Returns the bytes per second of copies between device and pinned memory, in the slower direction.
  double transfers() {
    const double value = alone([&] {
      const std::size_t bytes = std::min<std::size_t>(bytes_, 64 << 20);
      const auto pinned = gpu_.allocate_pinned(bytes);
      return std::min(rate(pinned.get(), in_.get(), bytes), rate(out_.get(), pinned.get(), bytes));
    });
    say("pinned_copy", value * 1e-9, "GB/s");
    return value;
  }

  Work start(std::size_t bytes, std::size_t offset = 0) {
    const auto at = [&](const std::shared_ptr<void>& memory) {
      return Buffer(static_cast<std::byte*>(memory.get()) + offset, bytes / sizeof(float), DType::f32,
                    {Device::Kind::cuda, device_});
    };
    return world_.allreduce(at(in_), at(out_));
  }
  /// Returns the time of an allreduce: the median of the slowest rank's times.
  double call_of(std::size_t bytes, int before, int turns) {
    for (int i = 0; i < before; ++i) start(bytes).wait();
    std::vector<double> times, slowest(static_cast<std::size_t>(turns));
    for (int i = 0; i < turns; ++i) {
      world_.barrier().wait();
      times.push_back(seconds_of([&] { start(bytes).wait(); }));
    }
    world_.allreduce(times, slowest, max).wait();
    return median(slowest);
  }

  /// Makes `calls` allreduces, each of a quarter of the memory, with up to four in flight. Calls `beside` when four are
  /// in flight.
  void accompany(
      int calls, const std::function<void()>& beside = [] {}) {
    constexpr std::size_t quarters = 4;
    const std::size_t bytes = bytes_ / quarters;
    std::deque<Work> flying;
    for (std::size_t i = 0; i < static_cast<std::size_t>(calls); ++i) {
      if (flying.size() == quarters) {
        flying.front().wait();
        flying.pop_front();
      }
      if (i == quarters) beside();
      flying.push_back(start(bytes, i % quarters * bytes));
    }
    for (Work& one : flying) one.wait();
  }
  /// Returns how many allreduces take longer than `window`, with a reserve: the largest number that any rank needs.
  int enough_for(double window) {
    constexpr int tried = 16;
    accompany(tried);
    world_.barrier().wait();
    const double each = seconds_of([&] { accompany(tried); }) / tried;
    return world_.allreduce(least_calls + static_cast<int>(std::ceil(1.5 * window / each)), max).wait();
  }

  struct Window {
    double products, calls;  // seconds from the launch of the products to their end, and to that of the allreduces
  };
  /// Measures rank 0's products while allreduces are in flight that began before. All ranks get the result.
  Window window(Products& products, int times, int calls) {
    Timed::time_point begin;
    const auto since = [&] { return std::chrono::duration<double>(Timed::now() - begin).count(); };
    std::future<double> ended;
    world_.barrier().wait();
    accompany(calls, [&] {
      if (world_.rank() != 0) return;
      begin = Timed::now();
      products.launch(times);
      ended = std::async(std::launch::async, [&] { return products.finish(), since(); });
    });
    const double all = world_.rank() == 0 ? since() : 0, own = ended.valid() ? ended.get() : 0;
    return {.products = world_.broadcast(own, 0).wait(), .calls = world_.broadcast(all, 0).wait()};
  }

  /// Measures how much longer rank 0's own kernels take beside allreduces. If the allreduces end before the kernels,
  /// the measurement is useless, and is repeated with twice as many allreduces.
  void beside() {
    Products products(gpu_, device_, side_);
    const double one = alone([&] { return products.seconds(1), products.seconds(3) / 3; });
    const int times = std::max(2, static_cast<int>(0.06 / one));  // enough to take 60 ms
    const int first = calls_ > 0 ? std::max(calls_, least_calls) : enough_for(one * times);
    const int most = calls_ > 0 ? first : 32 * first;
    for (int calls = first; calls <= most; calls *= 2) {
      std::vector<double> without, with;
      bool accompanied = true;
      for (int turn = 0; turn < 9; ++turn) {
        without.push_back(alone([&] { return products.seconds(times); }));
        const Window seen = window(products, times, calls);
        with.push_back(seen.products);
        accompanied = accompanied && seen.products <= seen.calls;
      }
      if (!accompanied) continue;
      const double before = median(without), after = median(with);
      char words[100];
      std::snprintf(words, sizeof words, "%% (%.3f ms alone, %.3f ms beside %d allreduces)", before * 1e3, after * 1e3,
                    calls);
      return say("products_slower", (after / before - 1) * 100, words);
    }
    throw std::runtime_error(std::to_string(most) +
                             " allreduces ended before the products that they were to accompany");
  }

  static constexpr int least_calls = 8;  // at least, so that some still run when the products begin
  Communicator& world_;
  Accelerator& gpu_;
  const std::size_t bytes_;
  const int side_, calls_;
  int device_ = 0;
  Owned<Stream> stream_;
  std::shared_ptr<void> in_, out_;
};

void run(const std::string& backend, std::size_t bytes, int side, int calls) {
  Communicator world = Communicator::from_env();
  if (backend != "staged" && world.size() > 1) world.use_backend(backend);
  Measuring(world, bytes, side, calls).everything();
  world.barrier().wait();
}

}  // namespace
}  // namespace tutti::testing

int main(int count, char** words) {
  try {
    if (count < 2) throw std::runtime_error("gpu_figures BACKEND [BYTES [SIDE [CALLS]]]");
    const std::size_t bytes = count > 2 ? std::stoul(words[2]) : std::size_t{256} << 20;
    tutti::testing::run(words[1], bytes, count > 3 ? std::stoi(words[3]) : 4096, count > 4 ? std::stoi(words[4]) : 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_figures: %s\n", error.what());
    return 1;
  }
  return 0;
}
