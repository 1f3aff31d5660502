// What is measured of collectives on device memory, by ranks that are processes; rank 0 prints a line for each figure,
// as worlds.py reads it: "figure NAME VALUE UNIT".
//
//   gpu_figures BACKEND [BYTES [SIDE]]
//
// BYTES of the large allreduce (256 MiB); SIDE of the matrices that are multiplied beside one (4096). Every figure is a
// median; a call's time is that of the slowest rank. Device memory's own copies are measured by rank 0 alone, while
// the others wait on the host.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "tests/gpu/user_kernels.hpp"
#include "transports/accelerators.hpp"

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

class Measuring {
 public:
  Measuring(Communicator& world, std::size_t bytes, int side)
      : world_(world), gpu_(accelerator(world.settings())), bytes_(bytes), side_(side) {
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
  void say(const std::string& name, double value, const char* unit) const {
    if (world_.rank() == 0) std::printf("figure %s %.3f %s\n", name.c_str(), value, unit);
    std::fflush(stdout);
  }
  /// What rank 0 measures while nobody else uses a device; the same number for all.
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

  /// Bytes read and written a second by copies within the device.
  double copies() {
    const double value = alone([&] { return 2 * rate(out_.get(), in_.get(), bytes_); });
    say("device_copy", value * 1e-9, "GB/s");
    return value;
  }
  /// Bytes a second between the device and pinned memory, the slower way.
  double transfers() {
    const double value = alone([&] {
      const std::size_t bytes = std::min<std::size_t>(bytes_, 64 << 20);
      const auto pinned = gpu_.allocate_pinned(bytes);
      return std::min(rate(pinned.get(), in_.get(), bytes), rate(out_.get(), pinned.get(), bytes));
    });
    say("pinned_copy", value * 1e-9, "GB/s");
    return value;
  }

  Work start(std::size_t bytes) {
    const Device where{Device::Kind::cuda, device_};
    return world_.allreduce(Buffer(in_.get(), bytes / 4, DType::f32, where),
                            Buffer(out_.get(), bytes / 4, DType::f32, where));
  }
  /// Of an allreduce, the slowest rank's time.
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

  /// How much longer a program's own kernels of rank 0 take beside an allreduce of 64 MiB.
  void beside() {
    const std::size_t matrix = static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_) * sizeof(float);
    const UserKernels kernels = user_kernels();
    const auto a = gpu_.allocate(device_, matrix), b = gpu_.allocate(device_, matrix),
               c = gpu_.allocate(device_, matrix);
    const Owned<Stream> own(gpu_, gpu_.make_stream(device_));
    for (const auto& one : {a, b}) gpu_.zero(*own, one.get(), matrix);
    const auto multiply = [&](int times) {
      for (int i = 0; i < times; ++i)
        if (kernels.multiply(device_, (*own).handle, static_cast<const float*>(a.get()),
                             static_cast<const float*>(b.get()), static_cast<float*>(c.get()), side_) != 0)
          throw std::runtime_error("the program's own kernel cannot be launched");
    };
    const auto products = [&](int times) {
      return seconds_of([&] {
        multiply(times);
        gpu_.synchronize(*own);
      });
    };
    const double one = alone([&] { return products(1), products(3) / 3; });
    const int times = std::max(2, static_cast<int>(0.06 / one));  // for 60 ms
    const std::size_t bytes = std::min<std::size_t>(bytes_, 64 << 20);
    std::vector<double> without, with;
    for (int turn = 0; turn < 9; ++turn) {
      without.push_back(alone([&] { return products(times); }));
      world_.barrier().wait();
      const double took = seconds_of([&] {
        if (world_.rank() == 0) multiply(times);
        start(bytes).wait();
        if (world_.rank() == 0) gpu_.synchronize(*own);
      });
      with.push_back(world_.broadcast(took, 0).wait());
    }
    say("products", median(without) * 1e3, "ms");
    say("products_slower", (median(with) / median(without) - 1) * 100, "%");
  }

  Communicator& world_;
  Accelerator& gpu_;
  const std::size_t bytes_;
  const int side_;
  int device_ = 0;
  Owned<Stream> stream_;
  std::shared_ptr<void> in_, out_;
};

void run(const std::string& backend, std::size_t bytes, int side) {
  Communicator world = Communicator::from_env();
  if (backend != "staged" && world.size() > 1) world.use_backend(backend);
  Measuring(world, bytes, side).everything();
  world.barrier().wait();
}

}  // namespace
}  // namespace tutti::testing

int main(int count, char** words) {
  try {
    if (count < 2) throw std::runtime_error("gpu_figures BACKEND [BYTES [SIDE]]");
    const std::size_t bytes = count > 2 ? std::stoul(words[2]) : std::size_t{256} << 20;
    tutti::testing::run(words[1], bytes, count > 3 ? std::stoi(words[3]) : 4096);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_figures: %s\n", error.what());
    return 1;
  }
  return 0;
}
