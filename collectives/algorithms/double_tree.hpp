// Double trees: shared by broadcast, reduce and allreduce along two trees (see broadcast_double_tree.cpp).
#pragma once

#include "collectives/algorithms/pieces.hpp"
#include "collectives/plan/algorithm.hpp"

namespace tutti::pieces {

/// The neighbours of rank s.rank in tree number s.way. The tree consists of one of the two binary trees, over one rank
/// of each host, and of a binary tree inside every host from that rank. It starts at s.root if `is_rooted`.
Node double_tree(const Shape& s, bool is_rooted);
int ways_of_trees(const Shape& s);
/// The number of messages on the longest path from the top of tree number s.way, or from s.root if `is_rooted`.
int depth_of_trees(const Shape& s, bool is_rooted);
/// The most messages that one rank sends: to its parent (`up`), to its children (`down`), or both.
int most_sends(const Shape& s, bool is_rooted, bool up, bool down);
/// The most messages that one host sends to other hosts: to its parent (`up`), to its children (`down`), or both.
int most_crossings(int hosts, bool up, bool down);
/// The expense of a lane (a part of the buffer) that goes up the tree and folds (`up`), or down the tree.
Expense tree_expense(const Shape& s, bool is_rooted, bool up);

}  // namespace tutti::pieces
