// ServerRule: what a parameter server does with the messages that are pushed to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "transports/core/buffer.hpp"

namespace tutti {

/// What a worker says of a push. The library fills in `worker` and, where it is left at unknown_version, `version`.
struct PushMeta {
  static constexpr std::uint64_t unknown_version = ~std::uint64_t{0};
  int worker = -1;                          ///< a rank of the communicator
  std::uint64_t version = unknown_version;  ///< of the shard that it was computed from: the last one this worker saw
  std::uint64_t tokens = 0;                 ///< tokens or samples that went into it
  std::uint64_t steps = 0;                  ///< local steps that went into it
  double factor = 1.0;                      ///< of scaled_add and elastic; other rules may use it as they like
};

/// One push as a rule sees it.
struct Pushed {
  ConstBuffer data;  ///< in the type of the values, as many as these; empty where the rule takes none
  PushMeta meta;
  std::uint64_t staleness = 0;  ///< updates that the shard got since meta.version; 0 where that is not known
  Buffer answer;                ///< of rules that answer: what push_pull() gets, to be written; else empty
};

/// The part of one server's shard that a push is about.
struct ShardView {
  Buffer values;
  std::span<const Buffer> slots;  ///< ServerRule::slots of them, of the same part
  std::span<double> scalars;      ///< ServerRule::scalars of them, of the whole shard
  std::uint64_t version = 0;      ///< before this update
  std::size_t offset = 0;         ///< of values[0] in the whole buffer
  int server = 0;                 ///< its number among the servers
};

/// How a worker has gone.
enum class Parting : std::uint8_t {
  left,   ///< it has said so
  died,   ///< or an exception has ended it
  silent  ///< nothing was heard from it for ParameterServer::Options::silence
};

/// A function of the shard, the messages and what is said of them, and of nothing else: so a test may call it in any
/// order of arrivals. It changes values, slots, scalars and answers in place. Threads: a server calls its rules one at
/// a time, in a thread of its own; they must not wait for calls. What a rule throws is told to the workers concerned,
/// and the version stays.
struct ServerRule {
  using Apply = std::function<void(const ShardView& shard, std::span<const Pushed> pushed)>;
  Apply apply;
  /// Buffers that it keeps for each instance, zeroed at first, one element for each of the values: momentum and the
  /// like. They are f64 where the values are, else f32.
  std::size_t slots = 0;
  std::size_t scalars = 0;  ///< numbers that it keeps for each instance, 0 at first
  bool takes_data = true;   ///< false: pushes carry nothing
  bool answers = false;     ///< push_pull() gets Pushed::answer instead of the values
  /// So many workers' pushes make a round, which is applied in one call, sorted by worker. Where fewer workers have
  /// opened the instance, all of these. 1: each push by itself, at once.
  int quorum = 1;
  /// Seconds that a round waits, from its quorum on, for the pushes of further workers; it ends early with the last.
  double grace = 0;

  // The next three are optional, for a function that keeps state besides slots and scalars.
  /// Called when a worker has gone, between two updates. Its pushes that wait in a round are still applied afterwards.
  std::function<void(int worker, Parting how)> parted = {};
  /// The state for a dump, which load() is given when the dump is loaded. Each server saves its own.
  std::function<std::vector<std::byte>()> save = {};
  std::function<void(std::span<const std::byte> saved)> load = {};
};

using ServerRules = std::map<std::string, ServerRule>;

/// The rules that every server has. All are for any floating-point type; f16 and bf16 are computed in float and rounded
/// once.
///   zero        values = 0; takes no data
///   copy        values = data
///   add         values += data
///   scaled_add  values += factor * data
///   elastic     d = factor * (data - values); values += d; the answer is d, for the worker to subtract (EASGD, Zhang,
///               Choromanska & LeCun, 2015)
ServerRules standard_rules();

}  // namespace tutti
