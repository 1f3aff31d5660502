// One permutation per epoch, the same on all ranks.
#include "engine/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "engine/data/random.hpp"
#include "transports/core/status.hpp"

namespace tutti::engine {

Sampler::Sampler(const Plan& plan) : plan_(plan), order_(plan.samples) {
  if (plan.batch == 0) throw Error(Code::invalid, "batch=0: a global batch needs at least one sample");
  if (plan.samples < static_cast<std::size_t>(plan.size))
    throw Error(Code::invalid, std::to_string(plan.size) + " ranks, but only " + std::to_string(plan.samples) +
                                   " samples: start at most as many ranks as there are samples");
  if (plan.batch < static_cast<std::size_t>(plan.size))
    throw Error(Code::invalid, std::to_string(plan.size) + " ranks, but a global batch of " +
                                   std::to_string(plan.batch) + ": set batch= to at least the number of ranks");
  start_epoch(0);
}

void Sampler::start_epoch(std::size_t epoch) {
  std::iota(order_.begin(), order_.end(), 0U);
  shuffle(std::span(order_), Random::keyed(plan_.seed, 0x5a3b1e, epoch));
}

std::size_t Sampler::global_count(std::size_t step) const noexcept {
  const std::size_t begin = std::min(step * plan_.batch, plan_.samples);
  return std::min(plan_.batch, plan_.samples - begin);
}

std::span<const std::uint32_t> Sampler::local(std::size_t step) const noexcept {
  const Range mine = share(global_count(step), plan_.rank, plan_.size);
  return std::span(order_).subspan(std::min(step * plan_.batch, plan_.samples) + mine.begin, mine.count);
}

}  // namespace tutti::engine
