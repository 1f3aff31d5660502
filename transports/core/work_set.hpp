// WorkSet: waits for the first of many Works, at a cost that does not grow with their number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/work.hpp"

namespace tutti {

/// Works are added once, each with a key, and leave the set when they are done. wait_any() looks at all of its works
/// each time; this looks at those alone that have ended since.
///
/// Threads: one at a time.
class WorkSet {
 public:
  WorkSet();
  ~WorkSet();
  WorkSet(const WorkSet&) = delete;
  WorkSet& operator=(const WorkSet&) = delete;

  /// `key` is among the results of the first wait() after the work is done, which may be so already. The caller keeps
  /// a handle of the work until then.
  void add(const Work& work, std::uint64_t key);

  /// Makes progress until works are done or `limit` has passed; appends their keys to `ready`, one for each work. Works
  /// of several jobs of this process are driven in turns.
  void wait(std::vector<std::uint64_t>& ready, Seconds limit);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tutti
