// Whole runs with ranks as threads, for tests of the engine: networks, results, and comparisons.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/checkpoint/saver.hpp"
#include "engine/models/model.hpp"
#include "engine/trainer.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {

using HooksOf = std::function<Hooks(int rank)>;
inline Hooks no_hooks(int) { return {}; }

/// Called on each rank's network before it is trained.
using Prepare = std::function<void(const Network& network, Communicator& world)>;
inline void as_it_is(const Network&, Communicator&) {}

/// The text of the exception that `call` throws.
template <class Call>
std::string failure(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Makes the networks one after the other, because they share LibTorch's random generator.
inline std::vector<Network> networks_for(int ranks, const Config& config, const DataSplit& data) {
  std::vector<Network> networks;
  for (int r = 0; r < ranks; ++r) networks.push_back(make_network(config, data));
  return networks;
}

/// Trains one rank per network, and returns each rank's result.
inline std::vector<TrainResult> train_these(const std::vector<Network>& networks, const Config& config,
                                            const DataSplit& data, const HooksOf& hooks = no_hooks,
                                            const Prepare& prepare = as_it_is) {
  std::vector<TrainResult> results(networks.size());
  tutti::testing::run_ranks(static_cast<int>(networks.size()), tutti::testing::test_settings("shm"),
                            [&](Communicator& world) {
                              const auto r = static_cast<std::size_t>(world.rank());
                              prepare(networks[r], world);
                              results[r] = train(config, world, networks[r], data, hooks(world.rank()));
                            });
  return results;
}

inline std::vector<at::Tensor> copies_of(const Network& network) {
  std::vector<at::Tensor> copies;
  for (const auto& [name, tensor] : tensors_of(network).parameters) copies.push_back(tensor.detach().clone());
  return copies;
}

inline bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& one, const at::Tensor& other) { return one.equal(other); });
}

inline double largest_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>());
  return most;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Rank 0's result and parameters. All other ranks have to end with bitwise the same parameters.
struct Trained {
  TrainResult result;
  std::vector<at::Tensor> parameters;
};

inline Trained run_on(int ranks, const Config& config, const DataSplit& data, const HooksOf& hooks = no_hooks,
                      const Prepare& prepare = as_it_is) {
  const std::vector<Network> networks = networks_for(ranks, config, data);
  std::vector<TrainResult> results = train_these(networks, config, data, hooks, prepare);
  Trained run{std::move(results[0]), copies_of(networks[0])};
  for (const Network& each : networks) EXPECT_TRUE(same_bits(copies_of(each), run.parameters));
  return run;
}

/// Ends a run by an exception after `steps` steps, like a kill right after a checkpoint.
inline HooksOf interrupt_after(std::size_t steps) {
  return [steps](int) {
    return Hooks{.on_sample = [steps](const Moment& now) {
      if (now.step == steps) throw std::runtime_error("interrupted");
    }};
  };
}

class RunFolderTest : public ::testing::Test {
 protected:
  std::string folder(const std::string& name) const { return temporary_.path() + "/" + name; }
  void clear() const {
    for (const auto& each : std::filesystem::directory_iterator(temporary_.path()))
      std::filesystem::remove_all(each.path());
  }

 private:
  const tutti::testing::TemporaryFolder temporary_;
};

}  // namespace tutti::engine
