// The standard rules.
#include <cstring>

#include "collectives/parameter_server/elements.hpp"
#include "tutti/reduce.hpp"
#include "tutti/rule.hpp"

namespace tutti {
namespace {

void zero(const ShardView& shard, std::span<const Pushed> pushed) {
  if (!pushed.empty() && shard.values.count > 0) std::memset(shard.values.data, 0, shard.values.bytes());
}

void copy(const ShardView& shard, std::span<const Pushed> pushed) {
  for (const Pushed& one : pushed)
    if (shard.values.count > 0) std::memcpy(shard.values.data, one.data.data, shard.values.bytes());
}

void add(const ShardView& shard, std::span<const Pushed> pushed) {
  const Fold fold{shard.values.dtype, Op::sum};
  for (const Pushed& one : pushed) fold(shard.values.data, shard.values.data, one.data.data, shard.values.bytes());
}

void scaled_add(const ShardView& shard, std::span<const Pushed> pushed) {
  for (const Pushed& one : pushed)
    with_elements(shard.values.dtype, [&]<class T>(T*) {
      using Wide = WideOf<T>;
      const auto factor = static_cast<Wide>(one.meta.factor);
      T* const values = elements<T>(shard.values);
      const T* const data = elements<T>(one.data);
      for (std::size_t i = 0; i < shard.values.count; ++i)
        values[i] = static_cast<T>(static_cast<Wide>(values[i]) + factor * static_cast<Wide>(data[i]));
    });
}

// Adds the difference as rounded to T. The worker subtracts the same rounded value, so that the sum of both copies is
// conserved.
void elastic(const ShardView& shard, std::span<const Pushed> pushed) {
  for (const Pushed& one : pushed)
    with_elements(shard.values.dtype, [&]<class T>(T*) {
      using Wide = WideOf<T>;
      const auto factor = static_cast<Wide>(one.meta.factor);
      T* const values = elements<T>(shard.values);
      T* const answer = elements<T>(one.answer);
      const T* const data = elements<T>(one.data);
      for (std::size_t i = 0; i < shard.values.count; ++i) {
        const Wide value = static_cast<Wide>(values[i]);
        answer[i] = static_cast<T>(factor * (static_cast<Wide>(data[i]) - value));
        values[i] = static_cast<T>(value + static_cast<Wide>(answer[i]));
      }
    });
}

}  // namespace

ServerRules standard_rules() {
  return {{"zero", {.apply = zero, .takes_data = false}},
          {"copy", {.apply = copy}},
          {"add", {.apply = add}},
          {"scaled_add", {.apply = scaled_add}},
          {"elastic", {.apply = elastic, .answers = true}}};
}

}  // namespace tutti
