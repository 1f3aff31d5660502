// Backend: whole collectives on one group of ranks. A Communicator holds an ordered list of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transports/core/accelerator.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/status.hpp"
#include "transports/engine.hpp"

namespace tutti {

/// Ranks of a communicator: members[i] is the world rank of its rank i.
struct Group {
  std::uint64_t id = 0;  ///< agreed by all members; names the communicator in tags and causes
  int rank = 0;          ///< this process's rank in the group
  std::vector<int> members;
  std::vector<int> host;  ///< by rank: which host it is on, numbered from 0; empty: all are on one
  int size() const noexcept { return static_cast<int>(members.size()); }
  /// The rank here of a member's world rank; -1 of anybody else's.
  int rank_of(int world) const noexcept {
    const auto found = std::find(members.begin(), members.end(), world);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
  int hosts() const noexcept { return host.empty() ? 1 : *std::max_element(host.begin(), host.end()) + 1; }
};

/// One collective from its launch until it is done: what a backend plays, and to whom it reports. The reports are made
/// with the token held.
struct Call {
  Collective what;              ///< stays as it is until ended()
  std::uint32_t sequence = 0;   ///< the communicator's n-th call; equal on all ranks
  Signature summary;            ///< of the call; zero where messages are not to be checked
  std::string_view algorithm;   ///< one that supports() accepted; empty: the backend's own default
  const void* token = nullptr;  ///< what Backend::token() gave for it
  Event after = {};  ///< of a call on device memory: what the caller's stream had before the call is done by then

  /// Something failed, but parts of the call are still under way: they end when the communicator is cancelled,
  /// which follows. May be said several times.
  virtual void trouble(const Status& why) = 0;
  /// All that is left of the call is on a device's streams, and is done by `end`, which stays as it is until ended().
  /// So that a stream can wait where the host need not. Not every backend says so; before ended(), once.
  virtual void enqueued(const Event& /*end*/) {}
  /// Before ended(), where a device may go on using the buffers: whatever owns them is kept for ever.
  virtual void abandoned() {}
  /// All has ended, well or not: nobody touches the buffers any more. Exactly once, perhaps from inside
  /// start(), and the last thing that the backend does about the call, which may be another one from then on.
  virtual void ended(const Status& status) = 0;

 protected:
  Call() = default;
  Call(const Call&) = default;
  Call& operator=(const Call&) = default;
  ~Call() = default;
};

/// Made for one communicator, by all its members. Calls are started in the order of the communicator, equal on all
/// ranks, several under way at a time. Threads: as for every Engine; supports(), name() and describe() from any.
class Backend : public Engine {
 public:
  virtual std::string_view name() const noexcept = 0;

  /// Ok, or why this call cannot be done here by `algorithm` (empty: by the default). Answers before anything is
  /// sent, and looks only at what all ranks know alike: not at addresses, nor at the byte counts of a v-form.
  virtual Status supports(const Collective& call, std::string_view algorithm) const = 0;

  /// For an algorithm of that name: what start() is to find in Call::token, so that it looks for no name. Asked once
  /// per communicator, or more often; holds as long as the backend.
  virtual const void* token(Kind /*kind*/, std::string_view /*algorithm*/) const { return nullptr; }

  /// Begins a call that supports() accepted, which stays where it is until its ended(); never blocks.
  /// What it throws is a failure of this rank, and nothing may be under way then.
  virtual void start(Call& call) = 0;

  /// Ends every call with `why`; said to backends without one too. Each reports so once nobody touches its buffers any
  /// more, or those that a library cannot let go of are kept (see the backend's own page): from inside this, or from
  /// progress() where that takes a while, for the token is not held for it. Nothing is started afterwards. May be said
  /// again.
  virtual void cancel(const Status& why) noexcept = 0;

  /// Where a call stands, for the report of a time-out: "ring in round 3 of 6, with rank 2". Empty: unknown.
  virtual std::string where(std::uint32_t /*sequence*/) const { return {}; }
};

}  // namespace tutti
