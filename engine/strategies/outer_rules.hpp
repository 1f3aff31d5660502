// Outer rules: how a copy of the parameters is stepped by a merged delta. Ranks among equals and masters have the same
// ones, over elements; what is on a device is stepped by the same equations over tensors. Without LibTorch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/strategies/arithmetic.hpp"
#include "engine/strategies/axes.hpp"

namespace tutti::engine {

/// A rule and its numbers. `theta` is the copy, which masters call the centre; D is the delta: theta minus what the
/// ranks or workers have reached; g is the rate, m the momentum, t the number of the step, from 1.
struct OuterRule {
  Axes::Outer rule = Axes::Outer::none;
  double lr = 1;           ///< g; of none it is 1
  double momentum = 0;     ///< m
  std::int64_t every = 1;  ///< N of delayed-nesterov
  double decay = 0.999;    ///< b, of adam's second moment
  double epsilon = 1e-8;   ///< e, of adam

  /// The number of arrays, each as large as the copy, that the rule remembers: v, or v and s.
  std::size_t slots() const noexcept;
};

namespace outer {

/// theta -= g D. With g = 1, theta becomes the mean of what the ranks have reached (Local SGD; Stich, ICLR 2019).
struct Descent {
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

/// v = m v + (1 - m) D;  s = b s + (1 - b) D^2;  theta -= g (v / (1 - m^t)) / (sqrt(s / (1 - b^t)) + e)
/// (Kingma and Ba, ICLR 2015, algorithm 1).
struct Adam {
  static constexpr std::size_t slots = 2;
  double g, m, b, epsilon;
  double first, root;  // 1 - m^t, sqrt(1 - b^t)

  template <class Value>
  [[gnu::always_inline]] void operator()(Value& theta, const Value& delta, Value& v, Value& s) const {
    using A = Arithmetic<Value>;
    v = A::fused(1 - m, delta, A::scaled(m, v));
    s = A::squared(1 - b, delta, A::scaled(b, s));
    theta = theta + A::scaled(-g / first, v) / A::plus(A::over(A::root(s), root), epsilon);
  }
};

}  // namespace outer

/// Calls `use` with the rule for step number `step`, from 1: one of the structs above.
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
          outer::Adam{g, m, rule.decay, rule.epsilon, 1 - std::pow(m, t), std::sqrt(1 - std::pow(rule.decay, t))});
    case Axes::Outer::none: return use(outer::Descent{1});
    default: return use(outer::Descent{g});
  }
}

/// Steps `theta` in place by `delta`, of the same number of elements; `first` and `second` are the rule's v and s,
/// which begin with zeros, and are empty where rule.slots() is less. T is f16, bf16 or float, with Wide = float, or
/// double; Delta is T or Wide. The bits do not depend on the processor, nor on how the elements are cut into calls.
/// Does not allocate; any thread.
template <class T, class Delta, class Wide>
void outer_step(const OuterRule& rule, std::int64_t step, std::span<T> theta, std::span<const Delta> delta,
                std::span<Wide> first, std::span<Wide> second);

}  // namespace tutti::engine
