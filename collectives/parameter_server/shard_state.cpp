// Serialization of a shard's state, for dumps.
#include <cstring>

#include "collectives/parameter_server/shard.hpp"

namespace tutti {
namespace {

void save_push(Serializer& archive, int worker, const PushMeta& meta, const Block& data) {
  archive.put(worker);
  archive.put(meta.version);
  archive.put(meta.tokens);
  archive.put(meta.steps);
  archive.put(meta.factor);
  archive.put_bytes(data.bytes());
}

void fill(const Block& block, ConstBytes bytes) {
  if (bytes.size() != block.size()) throw Error(Code::protocol, "load: what was dumped has another size");
  if (!bytes.empty()) std::memcpy(block.data(), bytes.data(), bytes.size());
}

}  // namespace

void Shard::save(Serializer& archive) const {
  archive.put(version_);
  archive.put_bytes(values_.bytes());
  archive.put<std::uint64_t>(rules_.size());
  for (const auto& [name, state] : rules_) {
    archive.put_text(name);
    archive.put_bytes(std::as_bytes(std::span(state.scalars)));
    archive.put<std::uint64_t>(state.slots.size());
    for (const Block& slot : state.slots) archive.put_bytes(slot.bytes());
    archive.put<std::uint64_t>(state.round.pushed.size() + state.round.next.size());
    for (const Push& one : state.round.pushed) save_push(archive, one.meta.worker, one.meta, one.data);
    for (const Push& one : state.round.next) save_push(archive, one.meta.worker, one.meta, one.data);
  }
}

// Pushes that waited in a round wait again, in the same order. The next push by the rule checks whether the round
// closes.
void Shard::restore(Deserializer& archive, const std::function<const ServerRule&(const std::string&)>& rule_of) {
  version_ = archive.take<std::uint64_t>();
  values_ = Block::zeroed(values_.size());
  fill(values_, archive.take_bytes());
  rules_.clear();
  for (auto left = archive.take<std::uint64_t>(); left > 0; --left) {
    Push push{.name = archive.take_text(), .range = place_.range, .dtype = place_.dtype};
    push.rule = &rule_of(push.name);
    RuleState& state = state_of(push);
    const ConstBytes scalars = archive.take_bytes();
    const auto slots = archive.take<std::uint64_t>();
    if (scalars.size() != state.scalars.size() * sizeof(double) || slots != state.slots.size())
      throw Error(Code::invalid, "load: the rule '" + push.name + "' kept other things when this was dumped");
    if (!scalars.empty()) std::memcpy(state.scalars.data(), scalars.data(), scalars.size());
    for (const Block& slot : state.slots) fill(slot, archive.take_bytes());
    for (auto pushes = archive.take<std::uint64_t>(); pushes > 0; --pushes) {
      push.meta.worker = archive.take<int>();
      push.meta.version = archive.take<std::uint64_t>();
      push.meta.tokens = archive.take<std::uint64_t>();
      push.meta.steps = archive.take<std::uint64_t>();
      push.meta.factor = archive.take<double>();
      push.data = Block::copy_of(archive.take_bytes());
      const std::size_t expected = push.rule->takes_data ? values_.size() : 0;
      if (push.meta.worker < 0 || push.data.size() != expected)
        throw Error(Code::protocol, "load: a push by the rule '" + push.name + "' that waited has " +
                                        std::to_string(push.data.size()) + " bytes, and not " +
                                        std::to_string(expected));
      state.round.next.push_back(push);
    }
  }
}

}  // namespace tutti
