#include "engine/strategies/outer_rules.hpp"

#include <type_traits>

#include "tutti/dtype.hpp"

namespace tutti::engine {
namespace {

template <class T, class Delta, class Wide>
[[gnu::always_inline]] inline void run(const OuterRule& rule, std::int64_t step, std::span<T> theta,
                                       std::span<const Delta> delta, std::span<Wide> v, std::span<Wide> s) {
  with_outer_rule(
      rule, step, [&](const auto& apply) __attribute__((always_inline)) {
        constexpr std::size_t slots = std::remove_cvref_t<decltype(apply)>::slots;
        for (std::size_t i = 0; i < theta.size(); ++i) {
          Wide value = static_cast<Wide>(theta[i]), own_v = 0, own_s = 0;
          if constexpr (slots > 0) own_v = v[i];
          if constexpr (slots > 1) own_s = s[i];
          apply(value, static_cast<Wide>(delta[i]), own_v, own_s);
          theta[i] = static_cast<T>(value);
          if constexpr (slots > 0) v[i] = own_v;
          if constexpr (slots > 1) s[i] = own_s;
        }
      });
}

// The compiler emits a library call for std::fma() unless the target has the instruction. Both give the same bits.
#if defined(__x86_64__)
template <class T, class Delta, class Wide>
[[gnu::target("avx2,fma")]] void run_with_fma(const OuterRule& rule, std::int64_t step, std::span<T> theta,
                                              std::span<const Delta> delta, std::span<Wide> v, std::span<Wide> s) {
  run(rule, step, theta, delta, v, s);
}

const bool has_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#endif

}  // namespace

std::size_t OuterRule::slots() const noexcept {
  std::size_t slots = 0;
  with_outer_rule(*this, 1, [&](const auto& apply) { slots = std::remove_cvref_t<decltype(apply)>::slots; });
  return slots;
}

template <class T, class Delta, class Wide>
void outer_step(const OuterRule& rule, std::int64_t step, std::span<T> theta, std::span<const Delta> delta,
                std::span<Wide> v, std::span<Wide> s) {
#if defined(__x86_64__)
  if (has_fma) return run_with_fma(rule, step, theta, delta, v, s);
#endif
  run(rule, step, theta, delta, v, s);
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
