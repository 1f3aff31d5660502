// Comm: an NCCL communicator.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "transports/nccl/library.hpp"
#include "tutti/accelerator.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::nccl {

/// A non-blocking communicator (ncclConfig_t::blocking = 0). One thread at a time.
class Comm {
 public:
  Comm(const Library& nccl, CommHandle handle) noexcept : nccl_(nccl), handle_(handle) {}
  /// Destroys it, unless it was aborted; waits for pending work for a few seconds at most.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  CommHandle get() const noexcept { return handle_; }

  /// Returns success, in_progress, or an error, which may belong to any earlier call.
  Result state() const noexcept;

  /// Aborts pending work without the other ranks. Returns false if NCCL has not returned after `patience`; the abort
  /// then continues in the background.
  bool abort(Seconds patience) noexcept;

 private:
  const Library& nccl_;
  CommHandle handle_;
};

/// What is needed to create a communicator.
struct Opening {
  const Library& nccl;
  Accelerator& accelerator;
  int device = 0;
  Group group;
  std::shared_ptr<Store> store;
  Deadline until = never;
};

/// Collective; blocks until all ranks have called, `opening.until` has passed, or `given_up` is set. Throws Error.
std::unique_ptr<Comm> open_comm(const Opening& opening, const std::atomic<bool>& given_up);

/// What ranks publish before they create a communicator.
struct Card {
  int version = 0;   ///< NCCL's version
  std::string gpu;   ///< the GPU's UUID, equal in all processes
  std::string host;  ///< for messages
};
/// Returns the reason why NCCL cannot serve these ranks, as a clause; empty if it can. All ranks get the same text.
/// Collective; blocks.
std::string objection(const BackendMeeting& meeting, const Card& own);

}  // namespace tutti::nccl
