// Backend: complete collectives on one group of ranks. A Communicator has an ordered list of backends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/accelerator.hpp"
#include "tutti/collective.hpp"
#include "tutti/status.hpp"
#include "tutti/topology.hpp"

namespace tutti {

/// A part of a context (all that one rank owns) that has work in flight: a transport, or a backend with collectives.
///
/// Threads: every call except watch() is made by the holder of the context's progress token, a lock, so implementations
/// need no locks against one another.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Makes progress on pending operations for at most about 50 us, and reports those that finished. Returns true if
  /// there was progress.
  virtual bool progress() = 0;

  /// Descriptors that a sleeping thread polls; -1: none. `sleep` becomes readable when progress() has something to do,
  /// provided that arm(true) was called after the last progress() and returned true. arm(true) returns false if
  /// progress() has something to do already. arm(false) ends this. Both calls are cheap if nothing changes. `watch`
  /// becomes readable whenever watch() has something to do.
  struct Fds {
    int sleep = -1;
    int watch = -1;
  };
  virtual Fds fds() const noexcept = 0;
  virtual bool arm(bool on) = 0;

  /// True while work is in flight whose completion no descriptor reports, for example in a library without a wait
  /// handle. A sleeping thread then calls progress() at intervals that grow to 1 ms.
  virtual bool polled() const noexcept { return false; }

  /// Checks for dead ranks. Called by the background thread, without the progress token.
  virtual void watch() {}
};

/// An immutable list of ranks. Copies share the list and cost as little as a shared_ptr.
class Ranks {
 public:
  Ranks() = default;
  Ranks(std::vector<int> ranks) : list_(std::make_shared<const std::vector<int>>(std::move(ranks))) {}
  Ranks(std::initializer_list<int> ranks) : Ranks(std::vector<int>(ranks)) {}

  operator const std::vector<int>&() const noexcept {
    static const std::vector<int> none;
    return list_ ? *list_ : none;
  }
  std::size_t size() const noexcept { return list_ ? list_->size() : 0; }
  bool empty() const noexcept { return size() == 0; }
  const int* data() const noexcept { return list_ ? list_->data() : nullptr; }
  const int* begin() const noexcept { return data(); }
  const int* end() const noexcept { return data() + size(); }
  int operator[](std::size_t i) const noexcept { return (*list_)[i]; }
  int at(std::size_t i) const { return static_cast<const std::vector<int>&>(*this).at(i); }
  int front() const noexcept { return list_->front(); }
  int back() const noexcept { return list_->back(); }
  bool operator==(const Ranks& other) const noexcept { return std::ranges::equal(*this, other); }

 private:
  std::shared_ptr<const std::vector<int>> list_;
};

/// The ranks of a communicator: members[i] is the world rank of its rank i.
struct Group {
  std::uint64_t id = 0;  ///< equal on all members; identifies the communicator in tags and causes
  int rank = 0;          ///< this process's rank in the group
  Ranks members = {};
  std::shared_ptr<const Hosts> table = {};  ///< the members by host; null: all are on one host
  int size() const noexcept { return static_cast<int>(members.size()); }
  /// The rank in this group of a world rank; -1 if it is not a member.
  int rank_of(int world) const noexcept {
    // Fast path: in the world, and in groups that begin with its first ranks, both numbers are equal.
    const auto here = static_cast<std::size_t>(world);
    if (world >= 0 && here < members.size() && members[here] == world) return world;
    const auto found = std::ranges::find(members, world);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
  int hosts() const noexcept { return table ? table->count() : 1; }
};

struct Call;

/// Describes the progress of a call in flight, for reports. The caller holds the progress token.
class Tracker {
 public:
  /// The state of the call as text: "ring in round 3 of 6, with rank 2". Empty: unknown.
  virtual std::string where(const Call& call) const = 0;
  /// Appends the world ranks with which the call exchanges messages now, at most `most_partners`. At least one of them
  /// has not done its part yet. Appends nothing if they are unknown.
  virtual void partners(const Call& /*call*/, std::vector<int>& /*ranks*/) const {}
  static constexpr std::size_t most_partners = 16;

 protected:
  ~Tracker() = default;
};

/// One collective from its launch until ended(): the backend's input, and the receiver of the backend's reports. The
/// thread that reports holds the progress token.
struct Call {
  Collective what;                   ///< unchanged until ended()
  std::uint32_t sequence = 0;        ///< number of the call in its communicator; equal on all ranks
  Signature summary;                 ///< signature of the call; zero: messages are not checked
  std::string_view algorithm;        ///< an algorithm that supports() accepted; empty: the backend's default
  std::size_t piece = 0;             ///< bytes that a rank best forwards at a time; 0: the backend's default
  Event after = {};                  ///< a call on device memory starts after this event of the caller's stream
  const Tracker* tracker = nullptr;  ///< set by start() and valid until ended(); null: the progress is unknown

  /// Tracker::where(), for the error text of a timeout.
  std::string where() const { return tracker != nullptr ? tracker->where(*this) : std::string(); }

  /// Reports a failure while parts of the call are still in flight. The communicator is then cancelled, which ends
  /// these parts. May be called several times.
  virtual void trouble(const Status& why) = 0;
  /// Reports that the rest of the call is enqueued on device streams and completes with the event `end`, which stays
  /// valid until ended(). A stream can then wait instead of the host. Optional; at most once, before ended().
  virtual void enqueued(const Event& /*end*/) {}
  /// Reports, inside start(), that this rank has done its part and waits for others. Only where
  /// Backend::reports_waiting() is true; at most once, before ended().
  virtual void waiting() {}
  /// Reports that the first data of another rank have arrived. Optional; at most once, before ended().
  virtual void first_data() {}
  /// Reports, before ended(), that a device may use the buffers after ended(). The owners of the buffers are then never
  /// destroyed.
  virtual void abandoned() {}
  /// Reports that the call is over, successfully or not, and that nothing accesses its buffers any more. Called exactly
  /// once, possibly inside start(), as the backend's last action for the call: the object may be reused at once.
  virtual void ended(const Status& status) = 0;

 protected:
  Call() = default;
  Call(const Call&) = default;
  Call& operator=(const Call&) = default;
  ~Call() = default;
};

/// Made collectively for one communicator by all its members. Calls are started in communicator order, which is equal
/// on all ranks; several may be in flight. Threads: as for Engine; any thread may call supports() and name().
class Backend : public Engine {
 public:
  virtual std::string_view name() const noexcept = 0;

  /// Returns ok, or the reason why `algorithm` (empty: the default) cannot run this call. Local. The result depends
  /// only on values that are equal on all ranks, so neither on addresses nor on the byte counts of a v-form.
  virtual Status supports(const Collective& call, std::string_view algorithm) const = 0;

  /// Starts a call that supports() accepted; never blocks. `call` keeps its address until ended(). An exception means a
  /// failure of this rank; nothing of the call may then be in flight.
  virtual void start(Call& call) = 0;

  /// True if start() reports Call::waiting() before it waits, and does no more than a few microseconds of work before
  /// that. Small calls are then faster: what the library has to do besides is done meanwhile.
  virtual bool reports_waiting() const noexcept { return false; }

  /// Ends every call in flight with `why`. Each call reports ended() once nothing accesses its buffers: inside this
  /// function, or later inside progress(), so that this function need not wait with the progress token held. Buffers
  /// that a library cannot release are kept (see the backend's documentation). No call is started afterwards. May be
  /// called again, and also without calls in flight.
  virtual void cancel(const Status& why) noexcept = 0;
};

}  // namespace tutti
