// ServerRule: how a parameter server updates its values by pushed data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tutti/buffer.hpp"

namespace tutti {

/// Attributes of a push. The library sets `worker`; it sets `version` if the caller leaves it at unknown_version.
struct PushMeta {
  static constexpr std::uint64_t unknown_version = ~std::uint64_t{0};
  int worker = -1;  ///< rank in the communicator, or the number of a worker that joined later
  /// The version of the shard from which the push was computed, in the shard's current epoch. Default: the version that
  /// this handle of the buffer has read last, if any.
  std::uint64_t version = unknown_version;
  std::uint64_t tokens = 0;  ///< number of tokens or samples that the push was computed from
  std::uint64_t steps = 0;   ///< number of local steps that the push was computed from
  double factor = 1.0;       ///< for scaled_add and elastic; other rules may use it freely
};

/// One push, as passed to a rule.
struct Pushed {
  ConstBuffer data;  ///< as many elements, of the same type, as ShardView::values; empty if the rule takes no data
  PushMeta meta;
  std::uint64_t staleness = 0;  ///< updates of the shard since meta.version; 0 if that is unknown
  Buffer answer;                ///< if ServerRule::answers: the rule writes the result of push_pull() here; else empty
};

/// The range of one server's shard that a push updates.
struct ShardView {
  Buffer values;
  std::span<const Buffer> slots;  ///< ServerRule::slots arrays, for the same range as `values`
  std::span<double> scalars;      ///< ServerRule::scalars numbers, for the whole shard
  std::uint64_t version = 0;      ///< the shard's version before this update
  std::size_t offset = 0;         ///< position of values[0] in the whole buffer, in elements
  int server = 0;                 ///< index among the servers
};

/// Why a worker is gone.
enum class Parting : std::uint8_t {
  left,   ///< it left for good: it destroyed its ParameterServer
  died,   ///< its process or its connection ended
  silent  ///< it sent nothing for ParameterServer::Options::silence
};

/// A rule: a function that updates the values, slots, scalars and answers in place. It should depend on nothing but its
/// arguments, so that a test can play any order of arrivals. Threads: a server calls its rules one at a time on its own
/// thread; they must not block. An exception becomes the error of the pushes concerned, and the version stays; values
/// that the rule has already changed are not rolled back.
struct ServerRule {
  using Apply = std::function<void(const ShardView& shard, std::span<const Pushed> pushed)>;
  Apply apply;
  /// Number of arrays that the rule keeps for each buffer, for example for the momentum: one element per value, zeroed
  /// at first. Their type is f64 if the values are f64, else f32.
  std::size_t slots = 0;
  std::size_t scalars = 0;  ///< count of numbers that the rule keeps for each shard; each is 0 at first
  bool takes_data = true;   ///< false: the data of pushes are ignored
  bool answers = false;     ///< push_pull() returns Pushed::answer instead of the values
  /// Pushes of this many workers make a round, which is applied in one call, sorted by worker. If fewer workers have
  /// the buffer open, a round needs only their pushes. 1: each push is applied at once, unless `grace` is set.
  int quorum = 1;
  /// Seconds that a round stays open for further workers after its quorum; it closes early once all have pushed.
  double grace = 0;

  // The next three are optional, for a rule with state besides slots and scalars.
  /// Called between two updates when a worker is gone. `waiting` is the sum of PushMeta::steps over the worker's pushes
  /// by this rule that wait in an open round. These pushes are still applied when the round closes.
  std::function<void(int worker, Parting how, std::uint64_t waiting)> parted = {};
  /// save() returns the rule's state for a dump; load() receives it when the dump is loaded. Each server saves its own
  /// state. `waiting`: the pushes by this rule that wait in a round, in order of arrival in each buffer. The dump
  /// contains these pushes; after it has been loaded, they are applied when their round closes.
  std::function<std::vector<std::byte>(std::span<const Pushed> waiting)> save = {};
  std::function<void(std::span<const std::byte> saved)> load = {};
};

using ServerRules = std::map<std::string, ServerRule>;

/// The rules that every server has, for any floating-point type. f16 and bf16 are computed in float, and each result is
/// rounded once.
///   zero        values = 0; takes no data
///   copy        values = data
///   add         values += data
///   scaled_add  values += factor * data
///   elastic     d = factor * (data - values); values += d; answers d, which the worker subtracts (EASGD, Zhang,
///               Choromanska & LeCun, 2015)
ServerRules standard_rules();

}  // namespace tutti
