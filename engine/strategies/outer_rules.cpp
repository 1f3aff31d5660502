#include "engine/strategies/outer_rules.hpp"

#include <type_traits>

#include "tutti/dtype.hpp"

namespace tutti::engine {
namespace {

template <class T, class Delta, class Wide>
[[gnu::always_inline]] inline void run(const OuterRule& rule, std::int64_t step, std::span<T> theta,
                                       std::span<const Delta> delta, std::span<Wide> first, std::span<Wide> second) {
  with_outer_rule(
      rule, step, [&](const auto& apply) __attribute__((always_inline)) {
        constexpr std::size_t slots = std::remove_cvref_t<decltype(apply)>::slots;
        for (std::size_t i = 0; i < theta.size(); ++i) {
          Wide value = static_cast<Wide>(theta[i]), v = 0, s = 0;
          if constexpr (slots > 0) v = first[i];
          if constexpr (slots > 1) s = second[i];
          apply(value, static_cast<Wide>(delta[i]), v, s);
          theta[i] = static_cast<T>(value);
          if constexpr (slots > 0) first[i] = v;
          if constexpr (slots > 1) second[i] = s;
        }
      });
}

// std::fma() is a call of the C library, unless the instruction set is known to have it. Both give the same bits.
#if defined(__x86_64__)
template <class T, class Delta, class Wide>
[[gnu::target("avx2,fma")]] void run_with_fma(const OuterRule& rule, std::int64_t step, std::span<T> theta,
                                              std::span<const Delta> delta, std::span<Wide> first,
                                              std::span<Wide> second) {
  run(rule, step, theta, delta, first, second);
}

const bool has_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#endif

}  // namespace

std::size_t OuterRule::slots() const noexcept {
  if (rule == Axes::Outer::delayed_nesterov || rule == Axes::Outer::adam) return 2;
  return rule == Axes::Outer::heavyball || rule == Axes::Outer::nesterov ? 1 : 0;
}

template <class T, class Delta, class Wide>
void outer_step(const OuterRule& rule, std::int64_t step, std::span<T> theta, std::span<const Delta> delta,
                std::span<Wide> first, std::span<Wide> second) {
#if defined(__x86_64__)
  if (has_fma) return run_with_fma(rule, step, theta, delta, first, second);
#endif
  run(rule, step, theta, delta, first, second);
}

template void outer_step(const OuterRule&, std::int64_t, std::span<float>, std::span<const float>, std::span<float>,
                         std::span<float>);
template void outer_step(const OuterRule&, std::int64_t, std::span<double>, std::span<const double>, std::span<double>,
                         std::span<double>);
template void outer_step(const OuterRule&, std::int64_t, std::span<f16>, std::span<const f16>, std::span<float>,
                         std::span<float>);
template void outer_step(const OuterRule&, std::int64_t, std::span<bf16>, std::span<const bf16>, std::span<float>,
                         std::span<float>);
template void outer_step(const OuterRule&, std::int64_t, std::span<f16>, std::span<const float>, std::span<float>,
                         std::span<float>);
template void outer_step(const OuterRule&, std::int64_t, std::span<bf16>, std::span<const float>, std::span<float>,
                         std::span<float>);

}  // namespace tutti::engine
