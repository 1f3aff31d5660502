// Workers send impossible requests to the parameter server: the worker gets an error, and the server serves the others.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/caught.hpp"
#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::testing {
namespace {

class ServerClaims : public ::testing::TestWithParam<const char*> {};

TEST_P(ServerClaims, AreErrorsOfTheWorkerThatMakesThem) {
  run_ranks(
      3, [](int) { return test_settings(GetParam()); },
      [](Communicator& world) {
        ParameterServer server(world, {.servers = {0}, .workers = {1, 2}});
        if (world.rank() == 1) {
          for (const int power : {40, 55, 61, 62, 63}) {
            const Error error = caught([&] { server.open("w", std::size_t{1} << power, DType::f32); });
            require(error.code() == (power < 61 ? Code::resource : Code::invalid),
                    "2^" + std::to_string(power) + " elements: " + error.what());
          }
          const Error typed = caught([&] { server.open("w", 4, static_cast<DType>(99)); });
          require(typed.code() == Code::invalid, typed.what());
          Parameters small = server.open("small", 4, DType::f32);
          std::vector<float> eight(8);
          for (const std::size_t offset : {std::size_t{0}, std::size_t{4}, SIZE_MAX - 4, std::size_t{1} << 62}) {
            const Error error = caught([&] { small.pull(eight, offset).wait(); });
            require(error.code() == Code::invalid, error.what());
          }
        }
        world.barrier().wait();
        if (world.rank() == 0) {
          server.serve();
          return;
        }
        Parameters w = server.open("others", 4, DType::f32);
        const std::vector<float> mine(4, 1);
        std::vector<float> got(4);
        w.push("add", mine).wait();
        w.pull(got).wait();
        require(got[3] >= 1, "the server still serves");
        server.serve();
      });
}

INSTANTIATE_TEST_SUITE_P(Transports, ServerClaims, ::testing::Values("inproc", "shm", "tcp"));

}  // namespace
}  // namespace tutti::testing
