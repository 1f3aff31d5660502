#include "engine/server/master_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "collectives/parameter_server/elements.hpp"
#include "collectives/parameter_server/letters.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "engine/strategies/weights.hpp"

namespace tutti::engine {
namespace {

using Rule = MasterStep::Rule;

std::size_t slots_of(Rule rule) {
  if (rule == Rule::sgd) return 0;
  return rule == Rule::delayed_nesterov || rule == Rule::adam ? 2 : 1;
}

/// A delta of the round that is not rejected.
template <class T>
struct Delta {
  const T* values;
  double weight;  // in the round's mean
  double scale;   // StalenessPolicy::factor()
};

/// Computes the elements [begin, end) of the merged delta.
template <class T, class Wide>
void weighted_mean(std::vector<Wide>& merged, const std::vector<Delta<T>>& deltas, std::size_t begin, std::size_t end) {
  double total = 0;
  for (const Delta<T>& one : deltas) total += one.weight;
  for (std::size_t i = begin; i < end; ++i) {
    double sum = 0;
    for (const Delta<T>& one : deltas)
      sum += one.weight * one.scale * static_cast<double>(static_cast<Wide>(one.values[i]));
    merged[i] = static_cast<Wide>(sum / total);
  }
}

template <class T>
double length_of(const Delta<T>& one, std::size_t begin, std::size_t end) {
  double squares = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const double value = one.scale * static_cast<double>(static_cast<WideOf<T>>(one.values[i]));
    squares += value * value;
  }
  return std::sqrt(squares);
}

/// The deltas' mean length along their mean direction, by weight; if the directions cancel out, the weighted mean.
template <class T, class Wide>
void radial_mean(std::vector<Wide>& merged, const std::vector<Delta<T>>& deltas, std::size_t begin, std::size_t end) {
  double length = 0, weight = 0, squares = 0;
  std::vector<double> direction(end - begin);
  for (const Delta<T>& one : deltas) {
    const double own = length_of(one, begin, end);
    length += one.weight * own;
    weight += one.weight;
    for (std::size_t i = begin; own > 0 && i < end; ++i)
      direction[i - begin] += one.weight * one.scale * static_cast<double>(static_cast<Wide>(one.values[i])) / own;
  }
  for (const double each : direction) squares += each * each;
  if (std::sqrt(squares) <= 1e-12 * weight) return weighted_mean(merged, deltas, begin, end);
  const double factor = length / weight / std::sqrt(squares);
  for (std::size_t i = begin; i < end; ++i) merged[i] = static_cast<Wide>(factor * direction[i - begin]);
}

template <class T, class Wide>
void merge(std::vector<Wide>& merged, const DeltaRule& rule, std::vector<Delta<T>> deltas, const ShardView& shard) {
  const std::size_t count = shard.values.count;
  if (rule.merge == MasterMerge::radial) {
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
  if (rule.merge == MasterMerge::sum)
    for (Wide& each : merged) each *= static_cast<Wide>(deltas.size());
}

template <class Wide>
struct Slots {
  Wide* first = nullptr;
  Wide* second = nullptr;
};

template <class T, class Wide>
void step(const MasterStep& how, T* centre, const std::vector<Wide>& delta, Slots<Wide> slots, double& steps,
          double rate) {
  const auto g = static_cast<Wide>(rate), m = static_cast<Wide>(how.momentum), decay = static_cast<Wide>(how.decay),
             epsilon = static_cast<Wide>(how.epsilon), many = static_cast<Wide>(how.every);
  steps += 1;
  const bool turns = std::fmod(steps, static_cast<double>(how.every)) == 0;
  const auto corrected =
      static_cast<Wide>(std::sqrt(1 - std::pow(how.decay, steps)) / (1 - std::pow(how.momentum, steps)));
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const Wide d = delta[i], c = static_cast<Wide>(centre[i]);
    Wide* const v = slots.first == nullptr ? nullptr : slots.first + i;
    Wide* const s = slots.second == nullptr ? nullptr : slots.second + i;
    Wide moved = 0;
    switch (how.rule) {
      case Rule::sgd: moved = g * d; break;
      case Rule::heavyball: moved = g * (*v = m * *v + d); break;
      case Rule::nesterov:
        *v = m * *v + d;
        moved = g * (d + m * *v);
        break;
      case Rule::delayed_nesterov:
        moved = g * d / many;
        *s += d;
        if (!turns) break;
        *v = m * *v + std::exchange(*s, Wide{}) / many;
        moved += g * m * *v;
        break;
      case Rule::adam:
        *v = m * *v + (1 - m) * d;
        *s = decay * *s + (1 - decay) * d * d;
        moved = g * corrected * *v / (std::sqrt(*s) + epsilon);
        break;
    }
    centre[i] = static_cast<T>(c - moved);
  }
}

void apply_deltas(const DeltaRule& rule, const ShardView& shard, std::span<const Pushed> pushed) {
  with_elements(shard.values.dtype, [&]<class T>(T*) {
    using Wide = WideOf<T>;
    std::vector<Delta<T>> deltas;
    double rate = 1;
    for (const Pushed& one : pushed) {
      const double scale = rule.staleness.factor(one.staleness);
      const bool weighs = rule.merge == MasterMerge::tokens || rule.merge == MasterMerge::radial;
      const double weight = weighs ? token_weight(one.meta.tokens, one.meta.steps) : 1;
      if (scale == 0 || weight == 0) continue;
      deltas.push_back({elements<T>(one.data), weight, scale});
      rate = one.meta.factor;
    }
    if (deltas.empty()) return;
    std::vector<Wide> merged(shard.values.count);
    merge(merged, rule, std::move(deltas), shard);
    const auto slot = [&](std::size_t i) { return i < shard.slots.size() ? elements<Wide>(shard.slots[i]) : nullptr; };
    step(rule.step, elements<T>(shard.values), merged, Slots<Wide>{slot(0), slot(1)}, shard.scalars[0], rate);
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

// All answers are computed from the centre before the round. Adds them as rounded to T, which is what workers subtract.
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
            static_cast<T>(static_cast<Wide>(one.meta.factor) * (static_cast<Wide>(elements<T>(one.data)[i]) - before));
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
      .slots = slots_of(rule.step.rule),
      .scalars = 1,
      .quorum = rule.quorum,
      .grace = rule.grace};
}

std::vector<std::byte> WorkerCopies::save(std::span<const Pushed> waiting) const {
  std::map<int, ConstBytes> all;
  for (const auto& [rank, copy] : values) all[rank] = copy;
  for (const Pushed& one : waiting) all[one.meta.worker] = one.data.view();
  LetterWriter letter;
  for (const auto& [rank, copy] : all) {
    letter.put(rank);
    letter.put_bytes(copy);
  }
  return letter.take();
}

void WorkerCopies::load(std::span<const std::byte> saved) {
  values.clear();
  for (LetterReader letter(saved); !letter.is_at_end();) {
    std::vector<std::byte>& copy = values[letter.take<int>()];
    const ConstBytes bytes = letter.take_bytes();
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
