// The scenarios, as each rank plays them.
#include "tests/support/server_cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>

#include "tests/support/require.hpp"

namespace tutti::testing {
namespace {

using Floats = std::vector<float>;

float number(int value) { return static_cast<float>(value); }

void require_all(const Parameters& buffer, float value, const char* what) {
  Floats got(buffer.count(), -1);
  buffer.pull(got).wait();
  require(std::ranges::count(got, value) == std::ssize(got), what);
}

}  // namespace

void play_default_init(Communicator& world, ParameterServer& server) {
  Parameters buffer = server.open("default init", 1024, DType::f32);
  const Range mine = buffer.shards()[static_cast<std::size_t>(world.rank())];
  const Floats own(1024, number(world.rank()));
  buffer.push("copy", std::span(own).subspan(mine.offset, mine.count), {.offset = mine.offset}).wait();
  world.barrier().wait();
  Floats got(1024, -1);
  buffer.pull(got).wait();
  require(std::ranges::min(got) == 0 && std::ranges::max(got) == number(world.size() - 1), "min 0, max p - 1");
  for (std::size_t i = 0; i < buffer.shards().size(); ++i) {
    const auto part = std::span(got).subspan(buffer.shards()[i].offset, buffer.shards()[i].count);
    require(std::ranges::count(part, static_cast<float>(i)) == std::ssize(part), "each has its shard");
  }
  world.barrier().wait();
}

void play_constant(Communicator& world, ParameterServer& server) {
  Parameters buffer = server.open("constant", std::size_t{911} * 101, DType::f32);
  if (world.rank() == 0) buffer.push("copy", Floats(buffer.count(), 123)).wait();
  world.barrier().wait();
  require_all(buffer, 123, "the constant");
  world.barrier().wait();
}

void play_zero(Communicator& world, ParameterServer& server) {
  Parameters buffer = server.open("zero", std::size_t{911} * 101, DType::f32);
  buffer.push("add", Floats(buffer.count(), 1)).wait();
  world.barrier().wait();
  if (world.rank() == world.size() - 1) buffer.push("zero").wait();
  world.barrier().wait();
  require_all(buffer, 0, "zeroes");
  world.barrier().wait();
}

void play_copy(Communicator& world, ParameterServer& server) {
  Parameters buffer = server.open("copy", std::size_t{911} * 101, DType::f32);
  const int last = world.size() - 1;
  if (world.rank() == last) buffer.push("copy", Floats(buffer.count(), number(last))).wait();
  world.barrier().wait();
  require_all(buffer, number(last), "p - 1");
  world.barrier().wait();
}

void play_copy_then_add(Communicator& world, ParameterServer& server) {
  Parameters buffer = server.open("copy then add", std::size_t{911} * 101, DType::f32);
  const int p = world.size();
  const Floats mine(buffer.count(), number(world.rank()));
  if (world.rank() == p - 1) buffer.push("copy", mine).wait();
  world.barrier().wait();
  buffer.push("add", mine).wait();
  world.barrier().wait();
  require_all(buffer, number(p - 1 + p * (p - 1) / 2), "(p - 1) + p(p - 1)/2");
  world.barrier().wait();
}

void play_program_order(Communicator& world, ParameterServer& server) {
  Parameters buffer = server.open("order " + std::to_string(world.rank()), 30'000, DType::f32);
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  std::vector<Floats> data, into;  // reserved, so that buffers of calls in flight do not move
  std::vector<std::pair<std::size_t, float>> right;
  data.reserve(100), into.reserve(100);
  std::vector<Request> requests;
  std::vector<float> model(buffer.count(), 0);
  std::vector<std::vector<float>> models;
  for (int i = 0; i < 100; ++i) {
    const std::size_t offset = random() % 3 == 0 ? random() % 20'000 : 0;
    const std::size_t count = random() % 2 == 0 ? random() % 200 + 1 : buffer.count() - offset;
    const auto part = std::span(model).subspan(offset, count);
    const Floats& one = data.emplace_back(count, number(i % 7));
    Floats& got = into.emplace_back(count, -1.0f);
    switch (random() % 4) {
      case 0:
        requests.push_back(buffer.push("copy", one, {.offset = offset}));
        std::ranges::copy(one, part.begin());
        got.clear();
        break;
      case 1:
        requests.push_back(buffer.push("add", one, {.offset = offset}));
        for (float& value : part) value += number(i % 7);
        got.clear();
        break;
      case 2:
        requests.push_back(buffer.push_pull("scaled_add", one, got, {.offset = offset, .meta = {.factor = -2}}));
        for (float& value : part) value -= 2 * number(i % 7);
        break;
      default: requests.push_back(buffer.pull(got, offset)); break;
    }
    models.emplace_back(part.begin(), part.end());
  }
  for (const Request& one : requests) one.wait();
  for (std::size_t i = 0; i < into.size(); ++i)
    require(into[i].empty() || into[i] == models[i], "call " + std::to_string(i) + " of 100 in its order");
  Floats got(buffer.count());
  buffer.pull(got).wait();
  require(got == model, "what 100 calls have left");
  buffer.free();
}

void play_server_cases(Communicator& world, int rounds) {
  ParameterServer server(world, {});
  for (int round = 0; round < rounds; ++round) {
    play_default_init(world, server);
    play_constant(world, server);
    play_zero(world, server);
    play_copy(world, server);
    play_copy_then_add(world, server);
    if (round % 10 == 0) play_program_order(world, server);
  }
}

int rounds_or(int otherwise) {
  const char* const text = std::getenv("TUTTI_TEST_ROUNDS");
  return text != nullptr ? std::atoi(text) : otherwise;
}

}  // namespace tutti::testing
