// Gathering: at the start of a job every rank learns a text of every other, along a tree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/provider/texts.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {

/// A rank's place in the tree: its subtree is the ranks [rank, end), of which the first is the rank itself and the rest
/// is cut into at most `fan_out` runs of equal length, whose first ranks are the children. Rank 0 is the root.
struct Branch {
  int parent = -1;
  int end = 1;
  std::vector<int> children = {};
  int height = 0;  ///< links from here to the farthest leaf
  int depth = 0;   ///< links from here to the root
  bool operator==(const Branch&) const = default;
};
Branch branch_of(int rank, int size, int fan_out);

/// Sets in the job's store what take() reads there, as the root does.
void answer_all(Store& store, std::string_view name, const Texts& texts);

/// The ranks that gather. Borrowed but for the store.
struct Gatherers {
  int rank = 0;
  int size = 1;
  bool one_host = false;  ///< the links of the tree stay on this host
  std::shared_ptr<Store> store;
  std::string secret;      ///< of the job, which the links prove; without one there are no links
  std::string iface;       ///< networks that links may use, as the setting `iface`
  double patience = 60;    ///< seconds, for messages
  Deadline until = never;  ///< each rank's own
  int fan_out = 64;        ///< children of a rank; the same on all
};

/// Each rank hands what its subtree has told to its parent, through the store, and the root's answer, which is all
/// texts, goes down the tree. If one process serves the store, only the root's children read it there: every other rank
/// that has children serves it to them itself, on an address that it leaves in the store. So the store is asked for a
/// fixed number of things by each rank and sends O(p log p) bytes, in O(log p) rounds. NCCL's bootstrap ring and
/// PMIx's fence do the like.
///
/// A rank that does not reach its parent, or loses it, asks the store instead.
///
/// A rank that ends before it has told is named to all (Error{peer_lost} with the culprit), and those that have not
/// come in time as well (Error{timeout}).
///
/// Threads: one at a time. Lives until the children have read what they were told: its end waits for them, up to some
/// seconds.
class Gathering {
 public:
  /// Opens the links to parent and children. Blocks until the parent is there. Throws Error.
  explicit Gathering(Gatherers who);
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  /// Collective among all ranks, with the same `name`, which is used once: give(), then take().
  Texts exchange(std::string_view name, const Text& mine);

  /// The half that goes up the tree: waits for the children. Never throws for what other ranks do.
  void give(std::string_view name, const Text& mine);
  /// The half that goes down: waits for the parent, and serves the children.
  Texts take(std::string_view name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::launchers
