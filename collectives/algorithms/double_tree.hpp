// Double trees: what broadcast, reduce and allreduce along them share (see broadcast_double_tree.cpp).
#pragma once

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti::pieces {

/// A rank's neighbours in one of the two binary trees, by the shape's way, over one rank of each host, and in one
/// inside every host that starts at that rank. The tree begins at the root, or at a rank of its own choice.
Node double_tree(const Shape& s, bool is_rooted);
int ways_of_trees(const Shape& s);
/// Messages from where a way's tree begins to the farthest rank.
int depth_of_trees(const Shape& s, bool is_rooted);
/// The most messages of one rank: to its parent, to its children, or both.
int most_sends(const Shape& s, bool is_rooted, bool up, bool down);
/// The most messages of one host to other hosts: to its parent, to its children, or both.
int most_crossings(int hosts, bool up, bool down);
/// What a lane costs on its way up or down; up, it is folded.
Expense tree_expense(const Shape& s, bool is_rooted, bool up);

}  // namespace tutti::pieces
