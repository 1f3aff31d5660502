// Measures what a call costs besides the work of a backend, on a single rank.
//
//   dispatch_probe time              prints nanoseconds to the first line of Backend::start, and of whole calls
//   dispatch_probe calls FORM COUNT  makes COUNT calls, so that instructions or system calls can be counted
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"

namespace {

using tutti::Clock;

// The backend "instant" ends a call in start(), "instant/later" when the waiter looks for the first time.
tutti::Communicator alone(const std::string& backend) {
  tutti::Bootstrap bootstrap;
  bootstrap.settings.tuning = "off";
  bootstrap.settings.backend = backend;
  bootstrap.settings.module_path = TUTTI_TEST_MODULES;
  return tutti::Communicator::connect(bootstrap);
}

struct Form {
  std::string_view name;
  const char* backend;
  void (*call)(tutti::Communicator&, std::array<std::int64_t, 1>&);
};

constexpr std::array forms = {
    Form{"allreduce", "instant", [](auto& world, auto& data) { world.allreduce(data).wait(); }},
    Form{"later", "instant/later", [](auto& world, auto& data) { world.allreduce(data).wait(); }},
    Form{"broadcast", "instant", [](auto& world, auto& data) { world.broadcast(data).wait(); }},
    Form{"barrier", "instant", [](auto& world, auto&) { world.barrier().wait(); }},
    Form{"value", "instant", [](auto& world, auto&) { world.allreduce(1.0f).wait(); }},
    Form{"planned", "planned", [](auto& world, auto& data) { world.allreduce(data).wait(); }},
};

void make_calls(const Form& form, tutti::Communicator& world, long count) {
  std::array<std::int64_t, 1> data{};
  for (long i = 0; i < count; ++i) form.call(world, data);
}

std::int64_t now() { return Clock::now().time_since_epoch().count(); }

// Returns the lower quartile, because other programs on a busy machine only lengthen times.
std::int64_t quartile(std::vector<std::int64_t> values) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::ranges::nth_element(values, place);
  return *place;
}

// The backend `instant` writes the time at which start() was entered into the buffer of the call.
void time_to_start() {
  tutti::Communicator world = alone("instant");
  std::array<std::int64_t, 1> reached{};
  std::vector<std::int64_t> ways, nothing;
  for (int i = 0; i < 200'000; ++i) {
    std::int64_t before = now();
    world.allreduce(reached).wait();
    ways.push_back(reached[0] - before);
    before = now();
    nothing.push_back(now() - before);
  }
  std::printf("%-10s %6lld ns to the first line of start()\n", "allreduce",
              static_cast<long long>(quartile(ways) - quartile(nothing)));
}

void time_calls(const Form& form) {
  constexpr long batch = 10'000;
  tutti::Communicator world = alone(form.backend);
  std::vector<std::int64_t> batches;
  for (int i = 0; i < 31; ++i) {
    const std::int64_t before = now();
    make_calls(form, world, batch);
    batches.push_back(now() - before);
  }
  std::printf("%-10s %6.0f ns for call, wait and drop (%s)\n", form.name.data(),
              static_cast<double>(quartile(batches)) / batch, form.backend);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "time") == 0) {
    time_to_start();
    for (const Form& form : forms) time_calls(form);
    return 0;
  }
  if (argc == 4 && std::strcmp(argv[1], "calls") == 0) {
    for (const Form& form : forms) {
      if (form.name != argv[2]) continue;
      tutti::Communicator world = alone(form.backend);
      make_calls(form, world, std::atol(argv[3]));
      return 0;
    }
  }
  std::fprintf(stderr, "usage: dispatch_probe time | dispatch_probe calls FORM COUNT\n");
  return 2;
}
