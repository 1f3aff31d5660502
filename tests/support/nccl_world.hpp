// Ranks as processes that use the backend nccl, over the fakes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/fake_gpus.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/reference.hpp"
#include "tutti.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/store.hpp"

namespace tutti::testing {

/// Environment variables for the fakes.
using Told = std::vector<std::pair<const char*, std::string>>;

class NcclWorld : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = provider_names(Settings());
    if (std::ranges::count(names, "nccl") == 0) GTEST_SKIP() << "this build has no nccl (TUTTI_WITH_NCCL)";
  }

  /// Ranks as processes, with the backend nccl.
  using Body = std::function<std::string(Communicator&)>;
  void run(int size, const Body& body, const Told& told = {}, Settings settings = {}) {
    ++runs_;
    Fleet fleet(size, [&](int rank) { return play({rank, size}, body, told, settings); });
    fleet.expect_success();
  }

  struct Self {
    int rank, size;
  };
  std::string play(Self self, const Body& body, const Told& told, const Settings& settings) {
    for (const auto& [name, value] : told) ::setenv(name, value.c_str(), 1);
    Bootstrap bootstrap;
    bootstrap.rank = bootstrap.local_rank = self.rank;
    bootstrap.size = bootstrap.local_size = self.size;
    bootstrap.store = make_prefix_store(make_file_store(folder_.path()), "run/" + std::to_string(runs_));
    bootstrap.settings = with_fake_nccl(settings);
    if (bootstrap.settings.timeout == 300) bootstrap.settings.timeout = 60;
    bootstrap.settings.job = folder_.path();
    bootstrap.settings.secret = "nccl";
    bootstrap.settings.tuning = "off";
    Communicator world = Communicator::connect(bootstrap);
    world.use_backend("nccl");
    return body(world);
  }
  TemporaryFolder folder_;
  int runs_ = 0;  ///< number of runs, which have different folders
};

inline const CallOptions by_nccl{.algorithm = "nccl"};

inline OnDevice floats(int device, std::size_t count, float value) {
  const std::vector<float> values(count, value);
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {device, std::vector<std::byte>(bytes, bytes + count * sizeof(float))};
}

inline std::string wrong(const OnDevice& data, float expected) {
  const auto bytes = data.read();
  for (std::size_t i = 0; i < bytes.size() / sizeof(float); ++i)
    if (const double value = real_at(DType::f32, bytes.data(), i); value != static_cast<double>(expected))
      return "element " + std::to_string(i) + " is " + std::to_string(value) + ", not " + std::to_string(expected);
  return {};
}

/// Makes a call that must throw an Error with this code and all of `words` in its text. Returns "" or what is wrong.
inline std::string fails(const std::function<void()>& call, Code code, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != code) return "code " + std::string(name(error.code())) + ": " + text;
    for (const std::string& word : words)
      if (text.find(word) == text.npos) return "'" + word + "' is not in: " + text;
    return {};
  }
  return "it did not fail";
}

}  // namespace tutti::testing
