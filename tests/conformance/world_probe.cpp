// Tests of the conformance suite for ranks that are processes, started by a launcher, with settings from the
// environment.
//
//   world_probe cases | algorithms | rest | servers ROUNDS | roots | large | splits N | mismatch | absence | backend
//   NAME COMMAND...
//
// Prints "ok" on rank 0. If something is wrong, prints a line on stderr and exits with 1. `backend NAME` first checks
// that NAME makes the collectives.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/support/cases.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/require.hpp"
#include "tests/support/server_cases.hpp"
#include "tutti/memory.hpp"

namespace tutti::testing {
namespace {

void play_cases(Communicator& world) { play_alike(world, cases(world.size(), case_seed())); }

void play_roots(Communicator& world) {
  for (const std::size_t count : {0u, 1u, 8191u, 8192u, 8193u, 100'001u})
    for (int root = 0; root < world.size(); ++root) {
      const auto right = random_data(DType::i8, count, static_cast<std::uint64_t>(root) + count);
      auto data = world.rank() == root ? right : std::vector<std::byte>(count);
      world.broadcast(Buffer(data.data(), count, DType::i8), root).wait();
      require(data == right, "broadcast of " + std::to_string(count) + " from " + std::to_string(root));
    }
}

// Calls with more than 2^31 elements. Exits with 3 if there is not enough memory.
void play_large(Communicator& world) {
  constexpr std::size_t count = (std::size_t{1} << 31) + 5;
  const auto p = static_cast<std::size_t>(world.size());
  const std::size_t need = p * 4 * count + (std::size_t{1} << 30);
  const bool short_of_memory = available_memory() < need;
  if (world.allreduce(short_of_memory ? 1 : 0, max).wait() != 0) {
    std::fprintf(stderr, "needs %s of memory\n", size_text(need).c_str());
    std::exit(3);
  }
  const std::size_t places[] = {0, 1, (std::size_t{1} << 31) - 1, std::size_t{1} << 31, count - 1};
  const auto value = [](int rank) { return static_cast<std::int8_t>(rank + 1); };
  {
    auto data = world.allocate<std::int8_t>(count);
    for (const std::size_t i : places) data[i] = value(world.rank());
    world.allreduce(Buffer(data.data(), count, DType::i8)).wait();
    for (const std::size_t i : places)
      require(data[i] == static_cast<std::int8_t>(p * (p + 1) / 2), "allreduce: element " + std::to_string(i));
    require(data[2] == 0 && data[count - 2] == 0, "allreduce: an element was touched by another's sum");
  }
  // The blocks of an alltoall, an allgather and a reduce_scatter have more than 2^31 elements together.
  const std::size_t each = count / p + 1;
  auto from = world.allocate<std::int8_t>(each * p);
  auto into = world.allocate<std::int8_t>(each * p);
  for (std::size_t i = 0; i < p; ++i) from[i * each] = from[(i + 1) * each - 1] = value(world.rank());
  world.alltoall(Buffer(from.data(), each * p, DType::i8), Buffer(into.data(), each * p, DType::i8)).wait();
  for (std::size_t i = 0; i < p; ++i)
    require(into[i * each] == value(static_cast<int>(i)) && into[(i + 1) * each - 1] == value(static_cast<int>(i)),
            "alltoall: block " + std::to_string(i));
  const ConstBuffer block(into.data(), each, DType::i8);
  world.allgather(block, Buffer(from.data(), each * p, DType::i8)).wait();
  for (std::size_t i = 0; i < p; ++i) require(from[i * each] == value(0), "allgather: block " + std::to_string(i));
  world.reduce_scatter(Buffer(from.data(), each * p, DType::i8), Buffer(into.data(), each, DType::i8)).wait();
  require(into[0] == static_cast<std::int8_t>(p), "reduce_scatter");
}

void play_splits(Communicator& world, int count) {
  for (int i = 0; i < count; ++i) {
    auto some = world.split(world.rank() % 2);
    if (i % 100 == 0)
      require(some->allreduce(1, sum, {.algorithm = "planned"}).wait() == some->size(), "sum in a split");
  }
}

// Makes a call that must fail on every rank, with an error whose text contains `words`.
void require_error(const Communicator& world, const std::string& words, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    require(std::string(error.what()).find(words) != std::string::npos, error.what());
    std::fprintf(stderr, "rank %d: %s\n", world.rank(), error.what());
    return;
  }
  throw std::runtime_error("no error");
}

// Rank 0 calls another collective than the others.
void play_mismatch(Communicator& world) {
  std::vector<float> data(100'000, 1.0f), seven(7), all(7 * static_cast<std::size_t>(world.size()));
  require_error(world, "allgather(f32, count 7)",
                [&] { (world.rank() == 0 ? world.allgather(seven, all) : world.allreduce(data)).wait(); });
}

// Rank 0 calls only after the others' deadline. The data is static, because MPI may use it until the process ends.
void play_absence(Communicator& world) {
  static std::vector<float> data(100'000, 1.0f);
  require_error(world, "", [&] {
    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    world.allreduce(data, sum, {.timeout = 0.5}).wait();
  });
}

void require_backend(const Communicator& world, const std::string& name) {
  float value = 0;
  Collective call;
  call.kind = Kind::allreduce;
  call.in = ConstBuffer(&value, 1, DType::f32);
  call.out = Buffer(&value, 1, DType::f32);
  const std::string why = world.explain(call);
  require(why.starts_with(name), "this is not done by " + name + ": " + why);
}

int run(int count, char** words) {
  std::vector<std::string> arguments(words + 1, words + count);
  require(!arguments.empty(), "world_probe COMMAND");
  Communicator world = Communicator::from_env();
  if (arguments[0] == "backend") {
    require_backend(world, arguments.at(1));
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "cases")
      play_cases(world);
    else if (arguments[i] == "algorithms")
      require(play_targets(world, [&](Kind kind) { return planned_targets(kind, world.size()); }) > 0,
              "nothing to play");
    else if (arguments[i] == "rest")
      play_the_rest(world);
    else if (arguments[i] == "servers")
      play_server_cases(world, rounds_or(std::stoi(arguments.at(++i))));
    else if (arguments[i] == "roots")
      play_roots(world);
    else if (arguments[i] == "large")
      play_large(world);
    else if (arguments[i] == "splits")
      play_splits(world, std::stoi(arguments.at(++i)));
    else if (arguments[i] == "mismatch")
      play_mismatch(world);
    else if (arguments[i] == "absence")
      play_absence(world);
    else
      throw std::runtime_error("no such command: " + arguments[i]);
  }
  if (world.rank() == 0) std::puts("ok");
  return 0;
}

}  // namespace
}  // namespace tutti::testing

int main(int count, char** words) {
  try {
    return tutti::testing::run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "world_probe: %s\n", error.what());
    return 1;
  }
}
