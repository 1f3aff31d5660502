// Tests of collectives on device memory. Ranks are processes, on the devices that the settings name; ranks and settings
// come from the environment (see worlds.py).
//
//   gpu_probe cases BACKEND | large BACKEND ELEMENTS | absent | full BACKEND | killed BACKEND RANK | illegal BACKEND
//   RANK
//
// Every rank prints one line: "ok TEXT", or "error CODE SECONDS TEXT" for an expected error, with the seconds since its
// cause. If something is wrong, prints a line on stderr and exits with 1.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/gpu/user_kernels.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/require.hpp"
#include "transports/accelerators.hpp"

namespace tutti::testing {
namespace {

using namespace std::chrono_literals;

/// Memory of this rank's device, filled with ones.
class Ones {
 public:
  Ones(const Communicator& world, std::size_t count)
      : gpu_(accelerator(world.settings())),
        device_(device_of_rank(gpu_, world.rank())),
        count_(count),
        memory_(gpu_.allocate(device_, count * sizeof(float))) {
    const std::vector<float> ones(count, 1.0f);
    gpu_.copy(stream(), memory_.get(), ones.data(), count * sizeof(float));
    gpu_.synchronize(stream());
  }
  Stream stream() const { return {nullptr, device_}; }
  Buffer buffer() const { return {memory_.get(), count_, DType::f32, {Device::Kind::cuda, device_}}; }

 private:
  Accelerator& gpu_;
  const int device_;
  const std::size_t count_;
  const std::shared_ptr<void> memory_;
};

/// Makes the world, and selects the backend for device memory. Throws Error if the backend cannot be used.
Communicator world_by(const std::string& backend) {
  Communicator world = Communicator::from_env();
  if (backend != "staged" && world.size() > 1) world.use_backend(backend);
  return world;
}

// Makes an allreduce, and returns the backend that made it.
std::string done_by(Communicator& world) {
  const Ones data(world, 1000);
  world.allreduce(data.buffer()).wait();
  Collective call;
  call.kind = Kind::allreduce;
  call.in = call.out = data.buffer();
  const std::string why = world.explain(call);
  return why.substr(0, why.find(':'));
}

std::string summary(Communicator& world, const std::string& backend, std::size_t count) {
  if (world.size() > 1) {
    const std::string by = done_by(world);
    require(by == backend, "an allreduce is done by " + by + ", not by " + backend);
  }
  return std::to_string(count) + " cases on " + std::to_string(world.size()) + " ranks by " + backend;
}

std::string play_cases(const std::string& backend) {
  Communicator world = world_by(backend);
  auto all = cases(world.size(), case_seed());
  for (Case& one : all) one.device = true;
  play_alike(world, all);
  return summary(world, backend, all.size());
}

// Plays calls of up to `most` elements, with sizes around which backends change their algorithms.
std::string play_large(const std::string& backend, std::size_t most) {
  Communicator world = world_by(backend);
  std::vector<Case> all;
  for (const std::size_t count : {most / 80, most / 79, most / 7, most})
    for (const bool in_place : {false, true}) {
      const auto add = [&](Kind kind, DType dtype, const Reduction& op, std::size_t elements) {
        Case one{kind, dtype, op, elements, world.size() - 1, in_place, false, count + all.size()};
        one.device = true;
        all.push_back(one);
      };
      const std::size_t block = count / static_cast<std::size_t>(world.size()) + 1;
      add(Kind::allreduce, DType::f32, avg, count);
      add(Kind::allreduce, DType::bf16, max, count);
      add(Kind::allreduce, DType::f32, premul_sum(0.5), count);
      add(Kind::reduce, DType::i64, sum, count / 2);
      add(Kind::broadcast, DType::f32, sum, count);
      add(Kind::reduce_scatter, DType::f32, sum, block);
      add(Kind::allgather, DType::f64, sum, block / 2);
      add(Kind::alltoall, DType::f32, sum, block);
    }
  play_alike(world, all);
  return summary(world, backend, all.size());
}

// ---- what goes wrong ----------------------------------------------------------------------------

/// Makes `calls`, which must fail, and returns the error and its delay. Leaves the memory of the failed calls alone.
std::string must_fail(const std::function<void()>& calls, const std::chrono::steady_clock::time_point& since) {
  try {
    calls();
  } catch (const Error& error) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    char head[100];
    std::snprintf(head, sizeof head, "error %s %.3f culprit %d: ", std::string(name(error.code())).c_str(),
                  took.count(), error.culprit());
    return head + std::string(error.what());
  }
  throw std::runtime_error("no error");
}

std::string play_absent() {
  const auto begin = std::chrono::steady_clock::now();
  Communicator world = Communicator::from_env();
  std::vector<float> data(100);
  const Buffer buffer(data.data(), data.size(), DType::f32, {Device::Kind::cuda, 0});
  return must_fail([&] { world.allreduce(buffer).wait(); }, begin);
}

// Rank 0 allocates all device memory that is left. Then all ranks select the backend.
std::string play_full(const std::string& backend) {
  Communicator world = Communicator::from_env();
  Accelerator& gpu = accelerator(world.settings());
  const int device = device_of_rank(gpu, world.rank());
  std::vector<std::shared_ptr<void>> taken;
  if (world.rank() == 0)
    for (std::size_t piece = std::size_t{1} << 30; piece >= (1 << 20);) try {
        taken.push_back(gpu.allocate(device, piece));
      } catch (const Error& error) {
        require(error.code() == Code::resource, error.what());
        piece /= 2;
      }
  world.barrier().wait();
  const auto begin = std::chrono::steady_clock::now();
  const std::string said = must_fail([&] { world.use_backend(backend); }, begin);
  world.barrier().wait();
  return said;
}

std::string play_killed(const std::string& backend, int victim) {
  Communicator world = world_by(backend);
  const Ones& data = *new Ones(world, std::size_t{4} << 20);
  world.allreduce(data.buffer(), max).wait();
  world.barrier().wait();
  auto since = std::chrono::steady_clock::now();
  if (world.rank() == victim)
    std::thread([] { std::this_thread::sleep_for(30ms), ::kill(::getpid(), SIGKILL); }).detach();
  return must_fail(
      [&] {
        for (;;) {
          since = std::chrono::steady_clock::now();  // when the call that fails began
          world.allreduce(data.buffer(), max).wait();
        }
      },
      since);
}

std::string play_illegal(const std::string& backend, int rank) {
  const UserKernels kernels = user_kernels();
  Communicator world = world_by(backend);
  const Ones& data = *new Ones(world, 1 << 20);
  world.allreduce(data.buffer(), max).wait();
  world.barrier().wait();
  const auto since = std::chrono::steady_clock::now();
  if (world.rank() == rank) kernels.illegal_address(data.stream().device, data.stream().handle);
  return must_fail([&] { world.allreduce(data.buffer(), max).wait(); }, since);
}

std::string run(const std::vector<std::string>& words) {
  const std::string what = words.at(0);
  if (what == "cases") return "ok " + play_cases(words.at(1));
  if (what == "large") return "ok " + play_large(words.at(1), std::stoul(words.at(2)));
  if (what == "absent") return play_absent();
  if (what == "full") return play_full(words.at(1));
  if (what == "killed") return play_killed(words.at(1), std::stoi(words.at(2)));
  if (what == "illegal") return play_illegal(words.at(1), std::stoi(words.at(2)));
  throw std::runtime_error("no such command: " + what);
}

}  // namespace
}  // namespace tutti::testing

int main(int count, char** words) {
  try {
    std::puts(tutti::testing::run({words + 1, words + count}).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_probe: %s\n", error.what());
    std::fflush(nullptr);
    ::_exit(1);  // device memory of failed calls may never be freed
  }
  std::fflush(nullptr);
  ::_exit(0);
}
