// A parameter server's shard to which a test plays arrivals, with a simulated clock.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collectives/parameter_server/shard.hpp"

namespace tutti::testing {

inline Block block_of(const std::vector<double>& data) { return Block::copy_of(std::as_bytes(std::span(data))); }

inline std::vector<double> numbers(ConstBytes bytes) {
  std::vector<double> made(bytes.size() / sizeof(double));
  if (!made.empty()) std::memcpy(made.data(), bytes.data(), bytes.size());
  return made;
}

/// The values are doubles. `answers` has the replies since the last call of answered().
struct PlayedShard {
  explicit PlayedShard(std::vector<double> values, int workers = 0, std::optional<std::uint64_t> staleness = {})
      : shard({.server = 0, .range = {0, values.size()}, .dtype = DType::f64, .staleness = staleness}) {
    for (int worker = 0; worker < workers; ++worker) shard.enter(worker);
    std::memcpy(shard.values().data(), values.data(), values.size() * sizeof(double));
  }

  std::uint64_t push(const std::pair<std::string, ServerRule>& rule, std::vector<double> data, PushMeta meta,
                     Range range = {}, bool wants_values = true) {
    if (range.count == 0) range = shard.place().range;
    shard.push({.sequence = ++sequence,
                .name = rule.first,
                .rule = &rule.second,
                .range = range,
                .data = block_of(data),
                .dtype = DType::f64,
                .meta = meta,
                .wants_values = wants_values},
               now, answers);
    return sequence;
  }
  std::uint64_t pull(int worker) {
    shard.pull(worker, ++sequence, shard.place().range, answers);
    return sequence;
  }
  void part(int worker) { shard.part(worker, now, answers); }
  void sleep(double seconds) {
    now += duration_of(Seconds(seconds));
    shard.tick(now, answers);
  }
  std::vector<double> values() const { return numbers(shard.values().bytes()); }
  /// Returns the workers that got replies since the last call, in order.
  std::vector<int> answered() {
    std::vector<int> workers;
    for (const Answer& one : std::exchange(answers, {})) workers.push_back(one.worker);
    return workers;
  }

  Shard shard;
  Clock::time_point now{std::chrono::seconds(1000)};
  Answers answers;
  std::uint64_t sequence = 0;
};

}  // namespace tutti::testing
