// Backend: whole collectives on one group of ranks. A Communicator holds an ordered list of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/clock.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/work.hpp"

namespace tutti {

/// Ranks of a communicator: members[i] is the world rank of its rank i.
struct Group {
  std::uint64_t id = 0;  ///< agreed by all members; names the communicator in tags and causes
  int rank = 0;          ///< this process's rank in the group
  std::vector<int> members;
  int size() const noexcept { return static_cast<int>(members.size()); }
};

/// What a launch is given beside the call itself.
struct Launch {
  std::uint32_t sequence = 0;  ///< the communicator's n-th call; equal on all ranks
  Signature summary;           ///< of the call; zero where messages are not to be checked
  Deadline until = never;
  std::string_view choice;  ///< the algorithm that the selector named; empty: the backend's own default
};

/// Threads: launch() may be called from any thread, one call at a time for one Backend; it
/// never blocks. Errors: launch() throws Error{invalid, unsupported} before anything is sent;
/// what goes wrong later is the Work's.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const noexcept = 0;

  /// Ok, or why this call cannot be done here. Looks only at what all ranks know alike.
  virtual Status supports(const Collective& call) const = 0;

  virtual Work launch(Collective call, const Launch& launch) = 0;

  /// The same backend for some of its ranks; collective among `group`'s members.
  virtual std::unique_ptr<Backend> split(const Group& group) = 0;

  /// Fails everything in flight and everything later with `why`.
  virtual void abort(const Status& why) noexcept = 0;
};

}  // namespace tutti
