// Operation: one launched call of one communicator, and the state that its calls share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/runtime/mailbox.hpp"
#include "collectives/runtime/progress.hpp"
#include "transports/backend.hpp"
#include "transports/core/accelerator.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/work.hpp"

namespace tutti {

class CollectiveOperation;
class Context;

/// A call as one rank remembers it.
struct CallRecord {
  std::uint32_t sequence = 0;
  Signature call;
};

/// What the calls of one communicator share on this rank. Numbers and records: token held; the rest: any thread.
class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  explicit GroupState(Group group) : group_(std::move(group)) {}

  const Group& group() const noexcept { return group_; }

  /// Numbers a call that starts, and remembers it. So numbers follow the order of the starts, whichever threads call.
  std::uint32_t begin(Signature call);
  void completed(const CallRecord& call);

  /// The call with this number, if it was begun recently; and the last one that completed.
  bool begun(std::uint32_t sequence, Signature& call) const;
  const CallRecord& last_completed() const noexcept { return completed_; }
  std::uint32_t last_begun() const noexcept { return sequence_; }

  /// Ok until the first failure, then that for ever.
  Status poison() const;
  bool poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  /// True when this is the first failure.
  bool poison_with(const Status& why);

  /// What others send to the user's handler.
  Mailbox& mailbox() noexcept { return mailbox_; }

  /// Whoever plays its calls is told when it ends.
  void add(std::weak_ptr<Backend> backend);
  std::vector<std::shared_ptr<Backend>> backends() const;

  /// Where every call is verified first: those that have not started yet, in their order. Token.
  std::deque<CollectiveOperation*>& unstarted() noexcept { return unstarted_; }

 private:
  const Group group_;
  std::deque<CollectiveOperation*> unstarted_;
  std::uint32_t sequence_ = 0;
  CallRecord completed_;
  std::array<CallRecord, 256> recent_;
  mutable std::mutex mutex_;
  std::atomic<bool> poisoned_{false};
  Status poison_;                                 // mutex_
  std::vector<std::weak_ptr<Backend>> backends_;  // mutex_
  Mailbox mailbox_;
};

/// Where an operation belongs.
struct Home {
  std::shared_ptr<Driver> keeper;  ///< the context, and by its count the communicator with all that the call needs
  Context& context;
  GroupState& group;
};

/// Started under the token, ends by finish(). The context keeps it alive meanwhile.
class Operation : public WorkState, public Startable {
 public:
  const GroupState& group() const noexcept { return *group_; }
  const CallRecord& call() const noexcept { return call_; }
  Deadline until() const noexcept { return until_; }
  bool has_deadline() const noexcept { return until_ - launched_ < for_ever; }
  Clock::time_point launched() const noexcept { return launched_; }

  /// Where it stands, for the report of a time-out: "lane 0 in round 3 of 6, waiting for rank 2".
  virtual std::string where() const { return {}; }

  /// Ends what neither the transport nor a backend has; the communicator has failed. Token held.
  virtual void cancel(const Status& /*why*/) noexcept {}

  std::string explain(const Status& status) const override;

  bool start() final;

  bool look() override;
  void join(const Stream& stream) override;

  /// After the news was acted on; see Context::postpone.
  void finish_postponed(const Status& status);

  /// Of a call on device memory: notes what the caller's stream has by now. Before prepare(). Throws Error where the
  /// device refuses.
  void come_after(Accelerator& gpu, const Stream& stream);
  /// Keeps the owner of the memory until the end: a dropped handle does not wait. Before the launch.
  void keep(std::shared_ptr<const void> owner) noexcept;

  /// What another rank last said of this call.
  struct Answer {
    bool made = false;  ///< it has made a call of this number
    CallRecord completed;
  };

  // The watchdog's notes (token).
  Clock::time_point asked{};      ///< when the other ranks were last asked where they are
  std::map<int, Answer> answers;  ///< by world rank
  std::size_t place = 0;          ///< in the context's list of running operations

 protected:
  /// As WorkState's; the deadline is `allowed` from about now. Calls without a number (point to point) keep 0.
  void prepare(Home&& home, Signature call, Clock::duration allowed, bool numbered, bool on_device);

  /// Whether messages of the context's transport carry it, so that a turn of that moves it.
  virtual bool over_wire() const noexcept { return true; }

  /// Token held. What it throws ends the operation; nothing may be under way then.
  virtual void begin() = 0;

  /// Something failed, though not all has ended yet; ends the communicator. Token held.
  void in_trouble(const Status& why);

  /// Instead of start(), of a call that has its number already: `go_on` may do what begin() does.
  template <class GoOn>
  bool start_as(std::uint32_t sequence, GoOn go_on) {
    call_.sequence = sequence;
    return start_with(go_on);
  }

  /// An exception came out of what this rank had to do; ends the operation and the communicator.
  void fail_here(const char* what);

  /// Ends the operation: with the communicator's first cause if it is poisoned. Token held.
  void finish(const Status& status);
  /// The same of a call that alone ends: the communicator goes on. Token held.
  void finish_alone(const Status& status);
  /// What is left is on a device's streams, and done by `end`; see Call::enqueued.
  void note_enqueued(const Event& end);
  /// See Call::abandoned.
  void keep_owner_for_ever() noexcept;
  /// Of a call on device memory: what the caller's stream had before; else none.
  Event ready() const noexcept { return on_device_ ? *ready_ : Event(); }
  Context& context() const noexcept { return *context_; }
  GroupState& own_group() const noexcept { return *group_; }

 private:
  void end(const Status& status);
  template <class Begin>
  bool start_with(Begin begin);
  bool leave_running(Ref<Operation> self);

  Context* context_ = nullptr;
  GroupState* group_ = nullptr;
  CallRecord call_;
  bool numbered_ = false;
  bool on_device_ = false;
  bool running_ = false;                    // the context knows of it; else it is still starting
  Clock::time_point launched_{}, ended_{};  // the end: of a failure
  Deadline until_{};

  Owned<Event> ready_;
  std::shared_ptr<const void> keep_;  // until the end

  void let_streams_go();
  void let_owner_go() noexcept;
  std::atomic<bool> joined_{false};  // by a stream
  std::mutex streams_mutex_;         // of what follows
  Event end_;
  std::vector<std::unique_ptr<Gate>> gates_;  // opened when the call has ended
};

template <class Begin>
bool Operation::start_with(Begin begin) {
  Ref<Operation> self = Ref<Operation>::adopt(*this);
  running_ = false;
  try {
    begin();
  } catch (const std::exception& error) {
    fail_here(error.what());
  }
  return !done() && leave_running(std::move(self));
}

}  // namespace tutti
