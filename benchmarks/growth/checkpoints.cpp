// Checkpoints: how much a rank writes, by the number of ranks and by the number of steps done.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "benchmarks/growth/law.hpp"
#include "engine/checkpoint/shards.hpp"
#include "engine/checkpoint/state.hpp"

namespace tutti::growth {
namespace {

using namespace engine;
namespace fs = std::filesystem;

/// The parameters of a network of some 10^9 bytes: embeddings, and 16 layers of matrices and vectors.
std::vector<ShardedTensor> large_network() {
  std::vector<ShardedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    tensors.push_back({"model.safetensors", {name, DType::f32, std::move(shape)}});
  };
  add("embeddings", {50257, 1024});
  for (int layer = 0; layer < 16; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    add(prefix + "attention", {3072, 1024});
    add(prefix + "attention.bias", {3072});
    add(prefix + "up", {4096, 1024});
    add(prefix + "down", {1024, 4096});
    add(prefix + "norm", {1024});
  }
  return tensors;
}

/// The bytes that the rank with the most bytes writes, divided by the mean over all ranks.
double largest_share(std::int64_t ranks) {
  const std::vector<ShardedTensor> tensors = large_network();
  const auto shards = static_cast<std::size_t>(ranks);
  std::size_t most = 0, all = 0;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    std::size_t bytes = 0;
    for (const ShardPiece& piece : pieces_of(tensors, shard, shards)) bytes += piece.bytes;
    most = std::max(most, bytes);
    all += bytes;
  }
  return static_cast<double>(most) * static_cast<double>(ranks) / static_cast<double>(all);
}

struct OwnFolder {
  OwnFolder() { fs::create_directory(path); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() { fs::remove_all(path); }
  const fs::path path = fs::temp_directory_path() / ("tutti-growth-" + std::to_string(getpid()));
};

struct Written {
  std::size_t state = 0, history = 0;  // bytes
};

/// Returns the bytes that a checkpoint at step `steps` + 100 writes, if the previous one was at step `steps`.
Written checkpoint_after(std::int64_t steps) {
  RunState state;
  const auto go_to = [&](std::size_t step) {
    while (state.step < step) {
      state.losses.push_back(std::sin(static_cast<double>(++state.step)));
      if (state.step % 50 > 0) continue;
      state.validations.push_back({.step = state.step, .epoch = 1, .loss = 0.1, .metrics = {{"accuracy", 0.5}}});
      EpochResult epoch;
      epoch.step = state.step;
      epoch.ranks = 8192;
      epoch.waited_for = {{0, 0.25}, {4, 0.5}};
      state.epochs.push_back(epoch);
    }
  };
  const OwnFolder folder;
  History history(folder.path, {});
  go_to(static_cast<std::size_t>(steps));
  history.note(state);
  go_to(static_cast<std::size_t>(steps) + 100);
  Written written;
  written.history = history.note(state).size();
  RunState kept = state.without_past();
  kept.history = history.mark();
  written.state = kept.json().size();
  return written;
}

}  // namespace

std::vector<Law> checkpoint_laws() {
  const std::vector<std::int64_t> sizes = {64, 1024, 8192, 65536};
  return {
      {"checkpoints", "what the rank that writes most of the shards writes, divided by the mean", How::function,
       std::vector<std::int64_t>{64, 1024, 8192}, largest_share, 0, 1.01},
      {"checkpoints", "bytes of state.json, by steps done", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(checkpoint_after(n).state); }, 0.01, 700},
      {"checkpoints", "bytes added to the history for 100 steps with two epochs, by steps done", How::function, sizes,
       [](std::int64_t n) { return static_cast<double>(checkpoint_after(n).history); }, 0.01, 3600},
  };
}

}  // namespace tutti::growth
