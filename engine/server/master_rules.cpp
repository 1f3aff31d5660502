#include "engine/server/master_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "collectives/parameter_server/elements.hpp"
#include "collectives/parameter_server/serialization.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "engine/strategies/merge.hpp"

namespace tutti::engine {
namespace {

/// A delta of the round that is not rejected.
template <class T>
struct Delta {
  const T* values;
  double weight;  // the member's weight in the round's mean
  double scale;   // StalenessPolicy::factor()

  double value(std::size_t i) const { return scale * static_cast<double>(static_cast<WideOf<T>>(values[i])); }
};

template <class T>
MergeSums weights_of(const std::vector<Delta<T>>& deltas) {
  MergeSums sums;
  for (const Delta<T>& one : deltas) sums.weight += one.weight;
  return sums;
}

/// Computes the elements [begin, end) of the merged delta.
template <class T, class Wide>
void weighted_mean(std::vector<Wide>& merged, const std::vector<Delta<T>>& deltas, std::size_t begin, std::size_t end) {
  const MergeSums sums = weights_of(deltas);
  std::vector<double> factors;
  for (const Delta<T>& one : deltas) factors.push_back(sums.factor(one.weight, deltas.size()));
  for (std::size_t i = begin; i < end; ++i) {
    double sum = 0;
    for (std::size_t d = 0; d < deltas.size(); ++d) sum += factors[d] * deltas[d].value(i);
    merged[i] = static_cast<Wide>(sum / static_cast<double>(deltas.size()));
  }
}

/// Returns the L2 norm, summed in double. Wide is the type that T is computed in: float or double.
template <class Wide, class T>
double norm_of(std::span<const T> values) {
  double squares = 0;
  for (const T& each : values) {
    const auto value = static_cast<double>(static_cast<Wide>(each));
    squares += value * value;
  }
  return std::sqrt(squares);
}

/// Computes the elements [begin, end) of the radial mean; if the directions cancel out, the weighted mean.
template <class T, class Wide>
void radial_mean(std::vector<Wide>& merged, const std::vector<Delta<T>>& deltas, std::size_t begin, std::size_t end) {
  MergeSums sums = weights_of(deltas);
  std::vector<double> norms, direction(end - begin);
  double all = 0;
  for (const Delta<T>& one : deltas) {
    norms.push_back(one.scale * norm_of<WideOf<T>>(std::span(one.values + begin, end - begin)));
    all += one.weight * norms.back();
  }
  sums.norms.push_back(all);
  for (std::size_t d = 0; d < deltas.size(); ++d) {
    const double factor = sums.factor(deltas[d].weight, deltas.size(), norms[d]);
    for (std::size_t i = begin; i < end; ++i) direction[i - begin] += factor * deltas[d].value(i);
  }
  const double norm = norm_of<double>(std::span<const double>(direction));
  if (norm <= 1e-12 * static_cast<double>(deltas.size())) return weighted_mean(merged, deltas, begin, end);
  for (std::size_t i = begin; i < end; ++i) merged[i] = static_cast<Wide>(sums.norm(0) / norm * direction[i - begin]);
}

template <class T, class Wide>
void merge(std::vector<Wide>& merged, const DeltaRule& rule, const std::vector<Delta<T>>& deltas,
           const ShardView& shard) {
  const std::size_t count = shard.values.count;
  if (rule.merge == Axes::Merge::radial) {
    const tutti::Range here{shard.offset, count};
    for (const tutti::Range& tensor : rule.tensors.empty() ? std::vector<tutti::Range>{here} : rule.tensors) {
      const tutti::Range part = common(tensor, here);
      if (part.count > 0) radial_mean(merged, deltas, part.offset - here.offset, part.end() - here.offset);
    }
    return;
  }
  if (deltas.size() == 1) {
    for (std::size_t i = 0; i < count; ++i)
      merged[i] = static_cast<Wide>(deltas[0].scale) * static_cast<Wide>(deltas[0].values[i]);
    return;
  }
  weighted_mean(merged, deltas, 0, count);
  if (rule.merge == Axes::Merge::sum)
    for (Wide& each : merged) each *= static_cast<Wide>(deltas.size());
}

void apply_deltas(const DeltaRule& rule, const ShardView& shard, std::span<const Pushed> pushed) {
  with_elements(shard.values.dtype, [&]<class T>(T*) {
    using Wide = WideOf<T>;
    std::vector<Delta<T>> deltas;
    OuterRule outer = rule.outer;
    for (const Pushed& one : pushed) {
      const double scale = rule.staleness.factor(one.staleness);
      const bool weighs = rule.merge == Axes::Merge::tokens || rule.merge == Axes::Merge::radial;
      const double weight = weighs ? token_weight(one.meta.tokens, one.meta.steps) : 1;
      if (scale == 0 || weight == 0) continue;
      deltas.push_back({elements<T>(one.data), weight, scale});
      outer.lr = one.meta.factor;
    }
    if (deltas.empty()) return;
    const std::size_t count = shard.values.count;
    std::vector<Wide> merged(count);
    merge(merged, rule, deltas, shard);
    const auto slot = [&](std::size_t i) -> std::span<Wide> {
      if (i >= shard.slots.size()) return {};
      return {elements<Wide>(shard.slots[i]), count};
    };
    shard.scalars[0] += 1;
    outer_step(outer, static_cast<std::int64_t>(shard.scalars[0]), std::span(elements<T>(shard.values), count),
               std::span<const Wide>(merged), slot(0), slot(1));
  });
}

template <class T>
void keep_copy(WorkerCopies& copies, double here, const Pushed& one) {
  using Wide = WideOf<T>;
  std::vector<std::byte>& copy = copies.values[one.meta.worker];
  copy.resize(one.data.count * sizeof(T));
  auto* const values = reinterpret_cast<T*>(copy.data());
  for (std::size_t i = 0; i < one.data.count; ++i)
    values[i] = static_cast<T>(static_cast<Wide>(elements<T>(one.data)[i]) -
                               static_cast<Wide>(here) * static_cast<Wide>(elements<T>(one.answer)[i]));
}

// Computes each answer d from the centre before the round. Adds d as rounded to T, because workers subtract that value.
void apply_elastic(WorkerCopies* copies, double here, const ShardView& shard, std::span<const Pushed> pushed) {
  with_elements(shard.values.dtype, [&]<class T>(T*) {
    using Wide = WideOf<T>;
    T* const centre = elements<T>(shard.values);
    for (std::size_t i = 0; i < shard.values.count; ++i) {
      const Wide before = static_cast<Wide>(centre[i]);
      Wide after = before;
      for (const Pushed& one : pushed) {
        T& answer = elements<T>(one.answer)[i];
        answer =
            static_cast<T>(elastic_difference(one.meta.factor, static_cast<Wide>(elements<T>(one.data)[i]), before));
        after += static_cast<Wide>(answer);
      }
      centre[i] = static_cast<T>(after);
    }
    for (const Pushed& one : pushed)
      if (copies != nullptr) keep_copy<T>(*copies, here, one);
  });
}

}  // namespace

double StalenessPolicy::factor(std::uint64_t staleness) const noexcept {
  if (what == What::reject) return staleness > most ? 0 : 1;
  return what == What::damp ? 1 / (1 + static_cast<double>(staleness)) : 1;
}

ServerRule delta_rule(const DeltaRule& rule) {
  return {
      .apply = [rule](const ShardView& shard, std::span<const Pushed> pushed) { apply_deltas(rule, shard, pushed); },
      .slots = rule.outer.slots(),
      .scalars = 1,
      .quorum = rule.quorum,
      .grace = rule.grace};
}

std::vector<std::byte> WorkerCopies::save(std::span<const Pushed> waiting) const {
  std::map<int, ConstBytes> all;
  for (const auto& [rank, copy] : values) all[rank] = copy;
  for (const Pushed& one : waiting) all[one.meta.worker] = one.data.view();
  Serializer archive;
  for (const auto& [rank, copy] : all) {
    archive.put(rank);
    archive.put_bytes(copy);
  }
  return archive.take();
}

void WorkerCopies::load(std::span<const std::byte> saved) {
  values.clear();
  for (Deserializer archive(saved); !archive.is_at_end();) {
    std::vector<std::byte>& copy = values[archive.take<int>()];
    const ConstBytes bytes = archive.take_bytes();
    copy.assign(bytes.begin(), bytes.end());
  }
}

ServerRule elastic_rule(int quorum, double grace, std::shared_ptr<WorkerCopies> copies, double here) {
  ServerRule rule{
      .apply = [copies, here](const ShardView& shard,
                              std::span<const Pushed> pushed) { apply_elastic(copies.get(), here, shard, pushed); },
      .answers = true,
      .quorum = quorum,
      .grace = grace};
  if (!copies) return rule;
  rule.save = [copies](std::span<const Pushed> waiting) { return copies->save(waiting); };
  rule.load = [copies](std::span<const std::byte> saved) { copies->load(saved); };
  return rule;
}

ServerRule own_rule(std::shared_ptr<WorkerCopies> copies) {
  return {.apply =
              [copies](const ShardView& shard, std::span<const Pushed> pushed) {
                for (const Pushed& one : pushed) {
                  const auto found = copies->values.find(one.meta.worker);
                  const bool fits = found != copies->values.end() && found->second.size() == shard.values.bytes();
                  if (one.answer.count > 0)
                    std::memcpy(one.answer.data, fits ? found->second.data() : shard.values.data, shard.values.bytes());
                }
              },
          .answers = true};
}

ServerRule first_rule() {
  return {.apply =
              [](const ShardView& shard, std::span<const Pushed> pushed) {
                if (pushed.empty() || std::exchange(shard.scalars[0], 1) != 0 || shard.values.count == 0) return;
                std::memcpy(shard.values.data, pushed.front().data.data, shard.values.bytes());
              },
          .scalars = 1};
}

}  // namespace tutti::engine
