// Comm: a communicator of NCCL's, from its making, which takes as long as the slowest rank, to its end.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "transports/core/accelerator.hpp"
#include "transports/nccl/library.hpp"
#include "transports/provider.hpp"

namespace tutti::nccl {

/// Non-blocking in NCCL's sense. One thread at a time.
class Comm {
 public:
  Comm(const Library& nccl, CommHandle handle) noexcept : nccl_(nccl), handle_(handle) {}
  /// Ends it in peace, if it was not aborted; waits for what NCCL still has to do, a few seconds at most.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  CommHandle get() const noexcept { return handle_; }

  /// success, in_progress, or what went wrong, also in calls that were launched long ago.
  Result state() const noexcept;

  /// Ends what is under way, without the other ranks. False: NCCL has not come back after `patience`; it is left to
  /// itself.
  bool abort(Seconds patience) noexcept;

 private:
  const Library& nccl_;
  CommHandle handle_;
};

/// What a rank needs to make one with the others.
struct Opening {
  const Library& nccl;
  Accelerator& accelerator;
  int device = 0;
  Group group;
  std::shared_ptr<Store> store;
  Deadline until = never;
};

/// Collective; blocks until all have come, `opening.until` has passed or `given_up` is set. Throws Error.
std::unique_ptr<Comm> open_comm(const Opening& opening, const std::atomic<bool>& given_up);

/// What the ranks have to know of one another before; made by each.
struct Card {
  int version = 0;   ///< of NCCL
  std::string gpu;   ///< its name, the same in all processes
  std::string host;  ///< for people
};
/// Why NCCL cannot serve these ranks: a clause, the same on all of them; empty: it can. Collective; blocks.
std::string objection(const BackendMeeting& meeting, const Card& own);

}  // namespace tutti::nccl
