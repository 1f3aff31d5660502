// The collectives that NCCL supports, and how they are issued.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "transports/nccl/library.hpp"
#include "transports/nccl/scratch.hpp"
#include "tutti/accelerator.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"

namespace tutti::nccl {

/// One unnamed algorithm for every kind except send.
std::span<const std::string_view> algorithms(Kind kind) noexcept;

/// Ok, or why NCCL cannot perform the call. Depends only on what is equal on all ranks.
Status supported(const Collective& call, std::string_view algorithm);

/// The communicator, stream and scratch that a call uses.
struct Stage {
  const Library& nccl;
  CommHandle comm;
  int rank, size;
  Accelerator& accelerator;
  Stream stream;  ///< on the communicator's device
  Scratch& scratch;
};

/// A call that was issued to NCCL.
struct Issued {
  std::shared_ptr<void> scratch;  ///< kept until the call is done
  /// Issues the next piece; returns false if there is none left. Empty if the call has only one piece. Call it when
  /// NCCL has finished launching the piece before. Throws as issue(), whose arguments must still be valid.
  std::function<bool()> next_piece;
};

/// Enqueues a supported call, or its first piece. Does not wait for other ranks. NCCL may still be launching when this
/// returns: call NCCL for this communicator only when Comm::state() is not in_progress. After an Error, NCCL's state is
/// unknown.
Issued issue(const Collective& call, const Stage& stage);

/// Enqueues the call in a group of one rank, without NCCL.
std::shared_ptr<void> issue_alone(const Collective& call, Accelerator& accelerator, const Stream& stream);

}  // namespace tutti::nccl
