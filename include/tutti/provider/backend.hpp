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

/// A component of a context with work in flight: a transport, or a backend with collectives of its own.
///
/// Threads: every call except watch() is made by the holder of the context's progress token, so implementations need no
/// locks against one another.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Makes progress on pending operations for at most about 50 us, and reports those that finished. Returns true if
  /// there was progress.
  virtual bool progress() = 0;

  /// Descriptors for sleeping. `sleep` becomes readable when progress() has something to do, provided that arm(true)
  /// was called after the last progress() and returned true (false: there is something to do already). arm(false)
  /// disarms; both are cheap if nothing changes. `watch` becomes readable whenever watch() has something to do; -1 if
  /// there is none.
  struct Fds {
    int sleep = -1;
    int watch = -1;
  };
  virtual Fds fds() const noexcept = 0;
  virtual bool arm(bool on) = 0;

  /// True while work is in flight that no descriptor reports, as in a library without a wait handle. A sleeping thread
  /// then polls at intervals that grow to 1 ms.
  virtual bool polled() const noexcept { return false; }

  /// Checks for dead ranks. Called by the background thread, without the progress token.
  virtual void watch() {}
};

/// A list of ranks that does not change. Copies share it, and are as cheap as a pointer.
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
  std::uint64_t id = 0;  ///< agreed by all members; identifies the communicator in tags and causes
  int rank = 0;          ///< this process's rank in the group
  Ranks members = {};
  std::shared_ptr<const Hosts> table = {};  ///< the members by host; null: all are on one host
  int size() const noexcept { return static_cast<int>(members.size()); }
  /// The rank in this group of a world rank; -1 if it is not a member.
  int rank_of(int world) const noexcept {
    // In the world, and in groups that begin with its first ranks, a rank has its own number.
    const auto here = static_cast<std::size_t>(world);
    if (world >= 0 && here < members.size() && members[here] == world) return world;
    const auto found = std::ranges::find(members, world);
    return found == members.end() ? -1 : static_cast<int>(found - members.begin());
  }
  int hosts() const noexcept { return table ? table->count() : 1; }
};

struct Call;

/// Tells how far a call in flight has come. The caller holds the progress token.
class Tracker {
 public:
  /// "ring in round 3 of 6, with rank 2". Empty: unknown.
  virtual std::string where(const Call& call) const = 0;
  /// Appends the world ranks that the call exchanges with now, of whom at least one has not done its part; at most
  /// `most_partners`. None: unknown.
  virtual void partners(const Call& /*call*/, std::vector<int>& /*ranks*/) const {}
  static constexpr std::size_t most_partners = 16;

 protected:
  ~Tracker() = default;
};

/// One collective from its launch until it has ended: the backend's input, and the receiver of its reports. The
/// reporting thread holds the progress token.
struct Call {
  Collective what;                   ///< unchanged until ended()
  std::uint32_t sequence = 0;        ///< number of the call in its communicator; equal on all ranks
  Signature summary;                 ///< signature of the call; zero: messages are not checked
  std::string_view algorithm;        ///< one that supports() accepted; empty: the backend's own default
  std::size_t piece = 0;             ///< bytes of a buffer that are best sent on together; 0: the backend's own
  Event after = {};                  ///< on the caller's stream; a call on device memory starts after it
  const Tracker* tracker = nullptr;  ///< set by start() and valid until ended(); null: nobody knows more

  /// For the report of a time-out.
  std::string where() const { return tracker != nullptr ? tracker->where(*this) : std::string(); }

  /// Something failed, but parts of the call are still in flight; they end when the communicator is cancelled, which
  /// follows. May be called several times.
  virtual void trouble(const Status& why) = 0;
  /// Everything that remains of the call is enqueued on device streams and complete at `end`, which stays valid until
  /// ended(). Lets a stream wait instead of the host. Optional; at most once, before ended().
  virtual void enqueued(const Event& /*end*/) {}
  /// A device may continue to use the buffers after ended(): their owners are never destroyed. Called before ended().
  virtual void abandoned() {}
  /// The call is over, with success or not, and nothing accesses its buffers any more. Called exactly once, possibly
  /// inside start(), and the backend's last action for the call; the object may be reused for another call at once.
  virtual void ended(const Status& status) = 0;

 protected:
  Call() = default;
  Call(const Call&) = default;
  Call& operator=(const Call&) = default;
  ~Call() = default;
};

/// Made collectively for one communicator by all its members. Calls are started in communicator order, equal on all
/// ranks, with several in flight. Threads: as for every Engine; supports(), name() and describe() from any.
class Backend : public Engine {
 public:
  virtual std::string_view name() const noexcept = 0;

  /// Ok, or why `algorithm` (empty: the default) cannot run this call. Communicates nothing and depends only on what
  /// all ranks know alike: not on addresses, nor on the byte counts of a v-form.
  virtual Status supports(const Collective& call, std::string_view algorithm) const = 0;

  /// Starts a call that supports() accepted; never blocks. `call` keeps its address until its ended(). An exception is
  /// a failure of this rank, and must leave nothing in flight.
  virtual void start(Call& call) = 0;

  /// Ends every call with `why`; also called if there are none. Each call reports ended() once nothing accesses its
  /// buffers, either inside this call or later from progress(), as the progress token is not held while waiting.
  /// Buffers that a library cannot release are kept (see the backend's documentation). No call is started afterwards.
  /// May be called again.
  virtual void cancel(const Status& why) noexcept = 0;
};

}  // namespace tutti
