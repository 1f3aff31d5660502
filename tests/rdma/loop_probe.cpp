// Ranks that do one thing again and again, until something fails or they are told to end; for tests that break things
// meanwhile.
//
// clang-format off
//   loop_probe loop COUNT          allreduces of COUNT floats, checked. Rank by rank: "rank R is process P" when the
//                                  first is done, and "rank R: NANOSECONDS: the error" (monotonic clock) at the end
//   loop_probe wait SECONDS        all wait in a barrier for rank 0, which comes so much later; each prints
//                                  "rank R: slept M times, used N us of its processor" while it waited
//   loop_probe sum COUNT TIMES     so many allreduces of COUNT floats; prints "ok" on rank 0
//   loop_probe anew BYTES TIMES    messages from rank 0 to rank 1, each from and into other memory at the same address;
//                                  "ok" on rank 1
//   loop_probe kept BYTES TIMES    messages from rank 0 to rank 1 from and into memory of Communicator::allocate, which is
//                                  allocated anew in the middle; "ok" on rank 1
//   loop_probe time COUNT TIMES    so many allreduces of COUNT floats; rank 0 prints microseconds: the median
//   loop_probe there BYTES TIMES   a message from rank 0 to rank 1 and back, so often; rank 0 prints microseconds one
//                                  way: the median
//   loop_probe stream BYTES TIMES  messages from rank 0 to rank 1, 4 at a time; rank 0 prints MB/s
//   loop_probe flow BYTES TIMES    the same from and into memory of Communicator::allocate
// clang-format on
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tutti.hpp"
#include "tutti/clock.hpp"

namespace {

using namespace tutti;

void line(const std::string& text) {
  const std::string whole = text + "\n";
  if (::write(STDOUT_FILENO, whole.data(), whole.size()) < 0) std::exit(2);
}

std::string me(const Communicator& world) { return "rank " + std::to_string(world.rank()); }

void sum_once(Communicator& world, std::vector<float>& data) {
  std::fill(data.begin(), data.end(), static_cast<float>(world.rank() + 1));
  world.allreduce(data).wait();
  const float right = static_cast<float>(world.size() * (world.size() + 1)) / 2;
  for (const float value : data)
    if (value != right) throw std::runtime_error("a wrong sum: " + std::to_string(value));
}

void loop(Communicator& world, std::size_t count) {
  std::vector<float> data(count);
  sum_once(world, data);
  line(me(world) + " is process " + std::to_string(::getpid()));
  try {
    for (;;) sum_once(world, data);
  } catch (const Error& error) {
    line(me(world) + ": " + std::to_string(Clock::now().time_since_epoch().count()) + ": " + error.what());
  }
}

rusage used_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage;
}

double processor_time(const rusage& usage) {
  const auto us = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

void wait(Communicator& world, double seconds) {
  std::vector<float> data(1);
  sum_once(world, data);
  world.barrier().wait();
  if (world.rank() == 0) std::this_thread::sleep_for(Seconds(seconds));
  const rusage before = used_so_far();
  world.barrier().wait();
  const rusage after = used_so_far();
  line(me(world) + ": slept " + std::to_string(after.ru_nvcsw - before.ru_nvcsw) + " times, used " +
       std::to_string(static_cast<long>(processor_time(after) - processor_time(before))) + " us of its processor");
}

// Sends messages from memory that is mapped anew, at the address of the last message, and was freed in between.
void anew(Communicator& world, std::size_t bytes, int times) {
  void* const place = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < times; ++i) {
    void* const mapped = ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (mapped != place) throw std::runtime_error("no memory");
    const std::span<std::byte> data(static_cast<std::byte*>(place), bytes);
    const auto value = static_cast<std::byte>(i + 1);
    if (world.rank() == 0) {
      std::fill(data.begin(), data.end(), value);
      world.send(data, 1).wait();
    } else {
      world.recv(data, 0).wait();
      if (data.front() != value || data.back() != value || data[bytes / 2] != value)
        throw std::runtime_error("bytes of another message");
    }
    ::munmap(place, bytes);
  }
  if (world.rank() == 1) line("ok");
}

void there_and_back(Communicator& world, std::size_t bytes, int times) {
  std::vector<std::byte> data(bytes);
  std::vector<double> us;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    if (world.rank() == 0) world.send(data, 1).wait();
    if (world.rank() < 2) world.recv(data, 1 - world.rank()).wait();
    if (world.rank() == 1) world.send(data, 0).wait();
    us.push_back(Seconds(Clock::now() - start).count() * 1e6 / 2);
  }
  std::sort(us.begin(), us.end());
  if (world.rank() == 0) line(std::to_string(us[us.size() / 2]));
}

void kept(Communicator& world, std::size_t bytes, int times) {
  auto data = world.allocate<std::byte>(bytes);
  for (int i = 0; i < times; ++i) {
    if (i == times / 2) data = world.allocate<std::byte>(bytes);
    const auto value = static_cast<std::byte>(i + 1);
    const std::span<std::byte> all(data.data(), bytes);
    if (world.rank() == 0) {
      std::fill(all.begin(), all.end(), value);
      world.send(all, 1).wait();
    } else if (world.rank() == 1) {
      world.recv(all, 0).wait();
      if (std::ranges::count(all, value) != static_cast<std::ptrdiff_t>(bytes))
        throw std::runtime_error("bytes of another message");
    }
  }
  if (world.rank() == 1) line("ok");
}

void time_sums(Communicator& world, std::size_t count, int times) {
  std::vector<float> data(count);
  std::vector<double> us;
  for (int i = 0; i < times; ++i) {
    std::fill(data.begin(), data.end(), 1.0f);
    const auto start = Clock::now();
    world.allreduce(data).wait();
    us.push_back(Seconds(Clock::now() - start).count() * 1e6);
  }
  std::sort(us.begin(), us.end());
  if (world.rank() == 0) line(std::to_string(us[us.size() / 2]));
}

constexpr std::size_t at_once = 4;

template <class Block>
void stream(Communicator& world, std::vector<Block> data, std::size_t bytes, int times) {
  std::vector<Work> pending;
  world.barrier().wait();
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) {
    auto& one = data[static_cast<std::size_t>(i) % at_once];
    if (pending.size() == at_once) {
      pending.front().wait();
      pending.erase(pending.begin());
    }
    const std::span<std::byte> all(one.data(), bytes);
    if (world.rank() == 0) pending.push_back(world.send(all, 1));
    if (world.rank() == 1) pending.push_back(world.recv(all, 0));
  }
  for (Work& one : pending) one.wait();
  world.barrier().wait();
  const double seconds = Seconds(Clock::now() - start).count();
  if (world.rank() == 0) line(std::to_string(static_cast<double>(bytes) * times / seconds / 1e6));
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() < 2) return 2;
  try {
    Communicator world = Communicator::from_env();
    const auto elements = static_cast<std::size_t>(std::stoul(arguments[1]));
    if (arguments[0] == "loop") loop(world, elements);
    if (arguments[0] == "wait") wait(world, std::stod(arguments[1]));
    if (arguments[0] == "anew") anew(world, elements, std::stoi(arguments.at(2)));
    if (arguments[0] == "kept") kept(world, elements, std::stoi(arguments.at(2)));
    if (arguments[0] == "time") time_sums(world, elements, std::stoi(arguments.at(2)));
    if (arguments[0] == "there") there_and_back(world, elements, std::stoi(arguments.at(2)));
    if (arguments[0] == "stream")
      stream(world, std::vector(at_once, std::vector<std::byte>(elements)), elements, std::stoi(arguments.at(2)));
    if (arguments[0] == "flow") {
      std::vector<decltype(world.allocate<std::byte>(1))> blocks;
      for (std::size_t i = 0; i < at_once; ++i) blocks.push_back(world.allocate<std::byte>(elements));
      stream(world, std::move(blocks), elements, std::stoi(arguments.at(2)));
    }
    if (arguments[0] == "sum") {
      std::vector<float> data(elements);
      for (int i = std::stoi(arguments.at(2)); i > 0; --i) sum_once(world, data);
      if (world.rank() == 0) line("ok");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "loop_probe: %s\n", error.what());
    return 1;
  }
}
