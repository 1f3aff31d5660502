// Outer rules: how a merged delta steps the outer copy of the parameters. Ranks and masters use the same equations,
// element by element on the CPU, and over whole tensors on a GPU. Does not use LibTorch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/strategies/arithmetic.hpp"
#include "engine/strategies/axes.hpp"

namespace tutti::engine {

/// A rule and its numbers. In the equations, theta is the outer copy (the masters' centre). D is the delta: theta minus
/// the parameters that the ranks or workers have reached. g is the rate, m the momentum, t the step's number, from 1.
struct OuterRule {
  Axes::Outer rule = Axes::Outer::none;
  double lr = 1;           ///< g; the rule `none` always uses 1
  double momentum = 0;     ///< m
  std::int64_t every = 1;  ///< N of delayed-nesterov
  double beta2 = 0.999;    ///< beta2 of adam; beta1 of adam is m
  double epsilon = 1e-8;   ///< epsilon of adam

  /// The number of arrays of the copy's size in the rule's state: none, v, or v and s.
  std::size_t slots() const noexcept;
};

namespace outer {

/// theta -= g D. With g = 1, theta becomes the mean of what the ranks have reached (Local SGD; Stich, ICLR 2019).
struct Sgd {
  static constexpr std::size_t slots = 0;
  double g;

  template <class Value>
  [[gnu::always_inline]] void operator()(Value& theta, const Value& delta, Value&, Value&) const {
    theta = Arithmetic<Value>::fused(-g, delta, theta);
  }
};

/// v = m v + D;  theta -= g v  (SlowMo; Wang et al., ICLR 2020).
struct HeavyBall {
  static constexpr std::size_t slots = 1;
  double g, m;

  template <class Value>
  [[gnu::always_inline]] void operator()(Value& theta, const Value& delta, Value& v, Value&) const {
    v = Arithmetic<Value>::scaled(m, v) + delta;
    theta = Arithmetic<Value>::fused(-g, v, theta);
  }
};

/// v = m v + D;  theta -= g (D + m v)  (DiLoCo; Douillard et al. 2023).
struct Nesterov {
  static constexpr std::size_t slots = 1;
  double g, m;

  template <class Value>
  [[gnu::always_inline]] void operator()(Value& theta, const Value& delta, Value& v, Value&) const {
    v = Arithmetic<Value>::scaled(m, v) + delta;
    theta = Arithmetic<Value>::fused(-g, Arithmetic<Value>::fused(m, v, delta), theta);
  }
};

/// theta -= g D / N;  s += D;  every N-th time: v = m v + s / N, theta -= g m v, s = 0  (Liu et al. 2024).
struct DelayedNesterov {
  static constexpr std::size_t slots = 2;
  double g, m, n;
  bool is_nth;

  template <class Value>
  [[gnu::always_inline]] void operator()(Value& theta, const Value& delta, Value& v, Value& s) const {
    using A = Arithmetic<Value>;
    theta = A::fused(-g / n, delta, theta);
    s = s + delta;
    if (!is_nth) return;
    v = A::fused(1 / n, s, A::scaled(m, v));
    theta = A::fused(-g * m, v, theta);
    s = A::zero(s);
  }
};

/// v = m v + (1 - m) D;  s = beta2 s + (1 - beta2) D^2;
/// theta -= g (v / (1 - m^t)) / (sqrt(s / (1 - beta2^t)) + epsilon)  (Kingma and Ba, ICLR 2015, algorithm 1).
struct Adam {
  static constexpr std::size_t slots = 2;
  double g, m, beta2, epsilon;
  double bias, root_bias;  // 1 - m^t, sqrt(1 - beta2^t)

  template <class Value>
  [[gnu::always_inline]] void operator()(Value& theta, const Value& delta, Value& v, Value& s) const {
    using A = Arithmetic<Value>;
    v = A::fused(1 - m, delta, A::scaled(m, v));
    s = A::fused_square(1 - beta2, delta, A::scaled(beta2, s));
    theta = theta + A::scaled(-g / bias, v) / A::add(A::divide(A::sqrt(s), root_bias), epsilon);
  }
};

}  // namespace outer

/// Calls `use` with one of the structs above, for step number `step`, from 1. The struct's slots are rule.slots().
template <class Use>
[[gnu::always_inline]] inline void with_outer_rule(const OuterRule& rule, std::int64_t step, const Use& use) {
  const double g = rule.lr, m = rule.momentum, t = static_cast<double>(step);
  switch (rule.rule) {
    case Axes::Outer::heavyball: return use(outer::HeavyBall{g, m});
    case Axes::Outer::nesterov: return use(outer::Nesterov{g, m});
    case Axes::Outer::delayed_nesterov:
      return use(outer::DelayedNesterov{g, m, static_cast<double>(rule.every), step % rule.every == 0});
    case Axes::Outer::adam:
      return use(
          outer::Adam{g, m, rule.beta2, rule.epsilon, 1 - std::pow(m, t), std::sqrt(1 - std::pow(rule.beta2, t))});
    case Axes::Outer::none: return use(outer::Sgd{1});
    case Axes::Outer::sgd: return use(outer::Sgd{g});
    case Axes::Outer::gem: break;  // a rule of workers (engine/server/gem.cpp), without an outer copy
  }
}

/// Steps `theta` in place by `delta`, which has the same number of elements. `v` and `s` are the rule's state:
/// initially zeros, and empty if rule.slots() does not include them. T is f16, bf16 or float, with Wide = float, or T
/// is double. Delta is T or Wide. The result is bitwise the same on every processor, and for any division of the
/// elements into calls. Does not allocate; any thread.
template <class T, class Delta, class Wide>
void outer_step(const OuterRule& rule, std::int64_t step, std::span<T> theta, std::span<const Delta> delta,
                std::span<Wide> v, std::span<Wide> s);

}  // namespace tutti::engine
