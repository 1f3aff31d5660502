// Expressions: the elements with which the simulator computes, so that the order of reductions is visible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::testing {

/// Nothing, element i of some rank's `in`, or a fold of two expressions.
enum class Expression : std::uint64_t { nothing = 0 };

/// Makes and compares expressions. A fold records which ranks contributed, to which element, whether it was marked as
/// the last one, and its bracket structure (as a hash, operands not interchangeable).
class Algebra {
 public:
  explicit Algebra(int size) : everyone_(~std::uint64_t{0} >> (64 - size)) {}

  static Expression leaf(int rank, std::size_t index) {
    return static_cast<Expression>((static_cast<std::uint64_t>(rank) + 1) << 40 | index);
  }

  /// Returns with (op) from; `last`: this completes the element. Sets fault() if these must not be folded.
  Expression fold(Expression with, Expression from, bool last) {
    const Node a = node(with), b = node(from);
    if (!fault_.empty()) return Expression::nothing;
    if (a.ranks == 0 || b.ranks == 0)
      fault_ = "folds memory that was never written";
    else if (a.complete || b.complete)
      fault_ = "folds an element that is said to be complete";
    else if ((a.ranks & b.ranks) != 0)
      fault_ = "folds a contribution twice";
    else if (a.index != b.index)
      fault_ = "folds different elements";
    else if (last && (a.ranks | b.ranks) != everyone_)
      fault_ = "is said to be the last fold, and is not";
    const std::uint64_t hash = mix(mix(a.hash) + 3 * b.hash);
    nodes_.push_back({hash, a.ranks | b.ranks, a.index, last});
    return static_cast<Expression>(folded | (nodes_.size() - 1));
  }
  const std::string& fault() const { return fault_; }

  /// Why `value` is not the reduction of element `index` over all ranks; empty if it is.
  std::string why_not_result(Expression value, std::size_t index) const {
    const Node n = node(value);
    if (n.ranks != everyone_) return describe(value) + " is not everyone's contribution";
    if (n.index != index) return describe(value) + " is another element";
    if (everyone_ != 1 && !n.complete) return "no fold is said to be the last one";
    return {};
  }

  bool same(Expression a, Expression b) const { return node(a).hash == node(b).hash; }
  std::uint64_t everyone() const { return everyone_; }

  std::string describe(Expression value) const {
    const Node n = node(value);
    if (n.ranks == 0) return "nothing";
    std::string ranks;
    for (int r = 0; r < 64; ++r)
      if ((n.ranks >> r & 1) != 0) ranks += (ranks.empty() ? "" : "+") + std::to_string(r);
    return "in[" + std::to_string(n.index) + "] of " + ranks;
  }

 private:
  struct Node {
    std::uint64_t hash, ranks;
    std::size_t index;
    bool complete;
  };
  static constexpr std::uint64_t folded = std::uint64_t{1} << 63;

  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15u;
    return (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
  }
  Node node(Expression value) const {
    const auto bits = static_cast<std::uint64_t>(value);
    if (value == Expression::nothing) return {0, 0, 0, false};
    if ((bits & folded) != 0) return nodes_[bits & ~folded];
    return {mix(bits), std::uint64_t{1} << ((bits >> 40) - 1), bits & ((std::uint64_t{1} << 40) - 1), false};
  }

  std::uint64_t everyone_;
  std::vector<Node> nodes_;
  std::string fault_;
};

}  // namespace tutti::testing
