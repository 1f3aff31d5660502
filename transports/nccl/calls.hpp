// The collectives that NCCL has for us, and how each is asked for.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "transports/core/accelerator.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/status.hpp"
#include "transports/nccl/library.hpp"
#include "transports/nccl/scratch.hpp"

namespace tutti::nccl {

/// One, without a name, for every kind but send.
std::span<const std::string_view> algorithms(Kind kind) noexcept;

/// Ok, or why the call cannot be done by NCCL. Looks at what all ranks know alike.
Status supported(const Collective& call, std::string_view algorithm);

/// Where a call is played.
struct Stage {
  const Library& nccl;
  CommHandle comm;
  int rank, size;
  Accelerator& accelerator;
  Stream stream;  ///< of the communicator's device
  Scratch& scratch;
};

/// A call that NCCL has been asked for.
struct Issued {
  std::shared_ptr<void> scratch;  ///< needed until the call is done
  /// Asks for the next piece, once NCCL is no more at the one before; false: there was none left. Empty: there is one
  /// piece. As issue(); what that was given is still there.
  std::function<bool()> next_piece;
};

/// Puts a supported call, or its first piece, on the stream. Never waits for other ranks, but NCCL may still be at it
/// when this returns (see Comm::state), and until then must not be asked for more. Throws Error; then NCCL's state is
/// unknown.
Issued issue(const Collective& call, const Stage& stage);

/// The same among one rank, without NCCL.
std::shared_ptr<void> issue_alone(const Collective& call, Accelerator& accelerator, const Stream& stream);

}  // namespace tutti::nccl
