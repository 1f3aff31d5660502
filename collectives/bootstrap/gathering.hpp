// Gathering: an allgather of texts along a tree, at the start of a job.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/provider/texts.hpp"
#include "tutti/store.hpp"

namespace tutti::launchers {

/// A rank's place in the tree. Its subtree is the ranks [rank, end). The ranks after `rank` are cut into at most
/// `fan_out` runs of nearly equal length; the first rank of each run is a child. Rank 0 is the root.
struct Branch {
  int parent = -1;
  int end = 1;
  std::vector<int> children = {};
  int height = 0;  ///< links from here to the farthest leaf
  int depth = 0;   ///< links from here to the root
  bool operator==(const Branch&) const = default;
};
Branch branch_of(int rank, int size, int fan_out);

/// Sets `texts` in the job's store as the answer of the root, which take() reads there.
void answer_all(Store& store, std::string_view name, const Texts& texts);

/// One rank's description of the ranks that gather. A link is a direct connection from a rank to its parent.
struct Gatherers {
  int rank = 0;
  int size = 1;
  bool one_host = false;  ///< all ranks are on this host, so links use its loopback address
  std::shared_ptr<Store> store;
  std::string secret;      ///< of the job; both ends of a link prove that they know it. Empty: there are no links
  std::string iface;       ///< networks that links may use, as the setting `iface`
  double patience = 60;    ///< seconds, as error messages state them
  Deadline until = never;  ///< this rank's deadline; it waits a second longer per link for ranks farther away
  int fan_out = 64;        ///< children of a rank; the same on all
};

/// Each rank collects the texts of its subtree and sets them in the job's store, where its parent reads them. The
/// root's answer, which is all texts, goes down the tree. If one process serves the job's store, only the root's
/// children read the answer there. Every other rank with children serves the answer to them itself, at an address that
/// it sets in the job's store. Each rank makes a fixed number of requests to the job's store, which sends O(p log p)
/// bytes in O(log p) rounds. NCCL's bootstrap ring and PMIx's fence work in a similar way.
///
/// A rank that does not reach its parent, or loses it, reads the answer in the job's store.
///
/// If a rank ends before its text has arrived, all ranks throw Error{peer_lost} with that rank as the culprit. If ranks
/// do not come in time, all ranks throw Error{timeout}, which names them.
///
/// Threads: one at a time. The destructor waits up to 5 seconds until the children have read the answer.
class Gathering {
 public:
  /// Opens the links to parent and children. Blocks until the parent, unless it is rank 0, has published its address.
  /// Throws Error.
  explicit Gathering(Gatherers who);
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  /// Returns the texts of all ranks: give(), then take(). Collective; blocks. All ranks pass the same `name`, a new one
  /// for each exchange. Throws Error.
  Texts exchange(std::string_view name, const Text& mine);

  /// The first half of exchange(), up the tree: waits for the children. take() throws the failures of other ranks.
  void give(std::string_view name, const Text& mine);
  /// The second half, down the tree: waits for the answer, and passes it on to the children. Throws Error.
  Texts take(std::string_view name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::launchers
