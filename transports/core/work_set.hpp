// WorkSet: waits for the first of many Works, at a cost that does not grow with their number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/work.hpp"

namespace tutti {

/// Works are added once, each with a key, and leave the set when they are done. wait_any() checks all of its works in
/// each call; a WorkSet handles only the works that have ended since the last call.
///
/// Threads: one at a time.
class WorkSet {
 public:
  WorkSet();
  ~WorkSet();
  WorkSet(const WorkSet&) = delete;
  WorkSet& operator=(const WorkSet&) = delete;

  /// `key` is among the results of the first wait() after the work is done; the work may be done already. The caller
  /// keeps a handle of the work until then.
  void add(const Work& work, std::uint64_t key);

  /// Makes progress until at least one work is done or `limit` has passed; appends the key of each work that is done to
  /// `ready`. If works are of several jobs of this process, makes progress on the jobs in turns.
  void wait(std::vector<std::uint64_t>& ready, Seconds limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tutti
