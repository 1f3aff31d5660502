// Operation: one launched call. CollectiveOperation: a call that a backend performs. GroupState: the state that the
// calls of a communicator share. "Token held": for the holder of the progress token, a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/runtime/group_record.hpp"
#include "collectives/runtime/mailbox.hpp"
#include "collectives/runtime/pool.hpp"
#include "collectives/runtime/progress.hpp"
#include "collectives/runtime/route.hpp"
#include "collectives/runtime/verification.hpp"
#include "tutti/accelerator.hpp"
#include "tutti/collective.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/work.hpp"

namespace tutti {

class CollectiveOperation;
class Context;

/// A call as a rank remembers it: its number in the communicator, and its signature.
struct CallRecord {
  std::uint32_t sequence = 0;
  Signature call;
};

/// The state of one communicator on this rank. Sequence numbers and records: token held; the rest: any thread.
class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  explicit GroupState(Group group, std::shared_ptr<Recorder> recorder = nullptr, std::string name = {})
      : group_(std::move(group)), record_(std::move(recorder), group_, std::move(name)) {}

  const Group& group() const noexcept { return group_; }

  /// Records a call that starts, and returns its sequence number. Numbers follow the order of the starts, whichever
  /// threads launch.
  std::uint32_t begin(Signature call);
  void completed(const CallRecord& call);

  /// Finds a recent call by its number; false if it has not started or is too old.
  bool begun(std::uint32_t sequence, Signature& call) const;
  const CallRecord& last_completed() const noexcept { return completed_; }
  std::uint32_t last_begun() const noexcept { return sequence_; }

  /// What this rank knows of the calls of another rank X. The sources are X's answers to the watchdog's questions, and
  /// reports of ranks that wait for X.
  struct Answer {
    Clock::time_point at{};     ///< the time at which the members below were true
    Clock::time_point asked{};  ///< time of the first question that X has not answered yet; the epoch: there is none
    std::uint32_t begun = 0;    ///< number of the latest call that X had made at that time; 0: none
    int told_by = -1;           ///< the rank that reported it; -1: X itself
    bool is_silent = false;     ///< true: a rank reported that X does not answer
    CallRecord completed;       ///< the latest call that X had completed at that time
    bool has_made(std::uint32_t sequence) const noexcept {
      return begun != 0 && static_cast<std::int32_t>(begun - sequence) >= 0;
    }
  };
  void note_question(int world_rank, Clock::time_point now, Clock::time_point launched);
  /// Records the rank's answer: the latest call that it has made, and the latest that it has completed. Allocates at
  /// the first answer of a rank only.
  void note_answer(int world_rank, std::uint32_t begun, const CallRecord& completed);
  /// A report of rank `teller` about rank `about`, true at time `at`: the latest calls that `about` had made and
  /// completed or, if `silent`, that `about` does not answer. note_hearsay() ignores a report that is older than what
  /// is known of `about`, and forgets what `teller` reported about other ranks. `about` -1: the report names no rank.
  struct Hearsay {
    int teller = -1, about = -1;
    Clock::time_point at{};
    std::uint32_t begun = 0;
    bool silent = false;
    CallRecord completed;
  };
  void note_hearsay(const Hearsay& word);
  /// Returns the last answer of the rank; null if it is older than `since`, or if the rank is known not to answer.
  const Answer* answer_of(int world_rank, Clock::time_point since) const;
  /// The end of a chain of ranks that wait for one another in a call. Preferably it is a rank that had not made the
  /// call at time `at`, at most 6 s ago; otherwise a rank that does not answer. Rank -1: no such rank is known.
  struct End {
    int rank = -1;
    Clock::time_point at{};
    bool is_silent = false;
  };
  End end_of_chain(std::uint32_t sequence, Clock::time_point since, Clock::time_point now) const;
  /// All such ends: the ranks that are known not to have made the call, or not to answer; in ascending order.
  std::vector<int> ends_of_chains(std::uint32_t sequence, Clock::time_point since, Clock::time_point now) const;

  /// For a call that takes long: the ranks that wait for this rank in it, and the end of the chain last told to them.
  struct Late {
    std::vector<int> askers;  // world ranks
    End told;
  };
  /// Creates the entry if there is none. The entry is removed when the call has completed.
  Late& late(std::uint32_t sequence) { return late_[sequence]; }
  /// Null: no rank has sent a question about this call.
  Late* find_late(std::uint32_t sequence) {
    const auto found = late_.find(sequence);
    return found == late_.end() ? nullptr : &found->second;
  }

  /// Ok until the first failure, and that failure afterwards.
  Status poison() const;
  bool poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }
  /// Sets the failure; returns true if it is the first one.
  bool poison_with(const Status& why);

  /// True while a failed communicator still performs calls that only need messages sent before a rank was lost. Becomes
  /// true when a rank is lost while no call runs, and false with the first call that needs more than messages that have
  /// arrived. Token held.
  bool takes_arrivals() const noexcept { return takes_arrivals_; }
  void take_arrivals(bool on) noexcept { takes_arrivals_ = on; }

  /// The failure of a call that its backend did not start; ok: there is none. Backends count calls, so they can start
  /// none after it, also before the communicator has failed. Token held.
  const Status& gap() const noexcept { return gap_; }
  void leave_gap(const Status& why) { gap_ = why; }

  /// The communicator in the flight recorder.
  GroupRecord& record() noexcept { return record_; }
  const GroupRecord& record() const noexcept { return record_; }

  /// Control messages for the user's handler.
  Mailbox& mailbox() noexcept { return mailbox_; }

  /// Notes that a backend performs calls that is neither the built-in plans nor the transport's own. Such a backend
  /// must learn of a failure at once. Any thread.
  void note_other_backend() noexcept { has_other_backends_ = true; }
  bool has_other_backends() const noexcept { return has_other_backends_; }

  /// Registers a backend, which is cancelled when the communicator fails.
  void add(std::weak_ptr<Backend> backend);
  std::vector<std::shared_ptr<Backend>> backends() const;

  /// Calls that wait for their verification or route, in launch order. Token held.
  std::list<CollectiveOperation*>& unstarted() noexcept { return unstarted_; }

 private:
  static constexpr std::size_t most_recent = 256;

  const Group group_;
  GroupRecord record_;
  std::list<CollectiveOperation*> unstarted_;
  std::uint32_t sequence_ = 0;
  CallRecord completed_;
  std::vector<CallRecord> recent_ =
      std::vector<CallRecord>(8);  // call n is at n modulo the size, which doubles up to most_recent
  std::map<int, Answer> answers_;  // by world rank
  End end_in(int rank, const Answer& answer, std::uint32_t sequence, Clock::time_point since,
             Clock::time_point now) const;
  std::map<std::uint32_t, Late> late_;  // by number of the call
  bool takes_arrivals_ = false;
  Status gap_;
  std::atomic<bool> has_other_backends_{false};
  mutable std::mutex mutex_;
  std::atomic<bool> poisoned_{false};
  Status poison_;                                 // guarded by mutex_
  std::vector<std::weak_ptr<Backend>> backends_;  // guarded by mutex_
  Mailbox mailbox_;
};

/// The objects that an operation belongs to.
struct Home {
  std::shared_ptr<Driver> keeper;  ///< keeps the context and the communicator alive
  Context& context;
  GroupState& group;
};

/// One call, from its launch to its end. start() begins it with the token held, and finish() ends it. The context keeps
/// the object alive in between.
class Operation : public WorkState, public Startable {
 public:
  const GroupState& group() const noexcept { return *group_; }
  GroupState& own_group() const noexcept { return *group_; }  ///< token held
  const CallRecord& call() const noexcept { return call_; }
  Deadline until() const noexcept { return until_; }
  bool has_deadline() const noexcept { return until_ - launched_ < for_ever; }
  Clock::time_point launched() const noexcept { return launched_; }

  /// The state of the call for the message of a timeout: "lane 0 in round 3 of 6, waiting for rank 2".
  virtual std::string where() const { return {}; }
  /// See Tracker::partners().
  virtual void partners(std::vector<int>& /*ranks*/) const {}

  /// Called after the communicator has failed: ends the parts of the call that neither the transport nor a backend
  /// ends. Token held.
  virtual void cancel(const Status& /*why*/) noexcept {}

  std::string explain(const Status& status) const override;

  bool start() final;

  bool look() override;
  void join(const Stream& stream) override;

  /// Its record in the flight recorder while it runs; null if there is none.
  Record* record() const noexcept { return record_.load(std::memory_order_relaxed); }

  /// Called after the pending causes are handled; see Context::postpone.
  void finish_postponed(const Status& status);

  /// For a call on device memory: records an event on the caller's stream; the call starts after this event. To be
  /// called before prepare(). Throws Error if the device fails.
  void come_after(Accelerator& gpu, const Stream& stream);
  /// Keeps the owner of the buffers until the call is done, so that dropping the handle does not block. Before the
  /// launch.
  void keep(std::shared_ptr<const void> owner) noexcept;

  // Token held.
  Clock::time_point asked{};    ///< when the watchdog last asked the other ranks about this call
  int questions = 0;            ///< how often the watchdog has asked about this call
  std::size_t place = 0;        ///< index in the context's list of running operations
  const char* label = nullptr;  ///< CallOptions::label

 protected:
  /// Extends WorkState::prepare(). The deadline is `allowed` from now. Calls that are not `numbered` (point to point)
  /// have number 0.
  void prepare(Home&& home, Signature call, Clock::duration allowed, bool numbered, bool on_device);

  /// What the flight recorder says of the call as call `number` of its communicator, which is not part of it.
  virtual RecordEntry entry(std::uint32_t number) const noexcept = 0;
  /// The call's signature, also if messages do not carry it.
  Signature made() const noexcept { return {entry(call_.sequence).call}; }
  /// Writes the record of a call that starts now. Token held.
  void begin_record(const GroupState& group, RecordEntry mine) noexcept {
    mine.group = group.group().id;
    if (label != nullptr) mine.label = group.record().label(label);
    record_.store(group.record().begin(mine), std::memory_order_relaxed);
  }
  /// `at_once`: the call has ended within its start.
  void end_record(bool ok, bool at_once) noexcept;

  /// True if the call's messages go over the context's transport, whose progress then advances the call.
  virtual bool over_wire() const noexcept { return true; }

  /// Starts the call. An exception fails the operation; in that case no messages may be in flight. Token held.
  virtual void begin() = 0;

  /// True if the call can complete on this rank only after data of another rank has arrived.
  virtual bool takes() const noexcept = 0;

  /// Reports a failure while parts of the call are still running; fails the communicator. Token held.
  void in_trouble(const Status& why);

  /// Replaces start() for a call that has its number already; calls `go_on` instead of begin().
  template <class GoOn>
  bool start_as(std::uint32_t sequence, GoOn go_on) {
    call_.sequence = sequence;
    return start_with(go_on);
  }

  /// Fails the operation and the communicator because of an exception on this rank.
  void fail_here(const char* what);

  /// Ends the operation. If `status` is a failure, the operation reports the communicator's first cause instead; if the
  /// communicator is not poisoned yet, the causes that have arrived are handled first. Token held.
  void finish(const Status& status);
  /// Ends the operation without failing the communicator. Token held.
  void finish_alone(const Status& status);
  /// Notes that the rest of the call is enqueued on device streams and complete at event `end`; see Call::enqueued.
  void note_enqueued(const Event& end);
  /// Leaks the owner of the buffers; see Call::abandoned.
  void keep_owner_for_ever() noexcept;
  /// For a call on device memory, the event that come_after() recorded; else an empty event.
  Event ready() const noexcept { return on_device_ ? *ready_ : Event(); }
  Context& context() const noexcept { return *context_; }

 private:
  void begin_after_failure();
  void end(const Status& status);
  template <class Begin>
  bool start_with(Begin begin);
  bool leave_running(Ref<Operation> self);

  Context* context_ = nullptr;
  std::atomic<Record*> record_{nullptr};
  GroupState* group_ = nullptr;
  CallRecord call_;
  bool numbered_ = false;
  bool on_device_ = false;
  bool running_ = false;                    // true: it is in the context's list of running operations
  Clock::time_point launched_{}, ended_{};  // ended_: time of a failure
  Deadline until_{};

  Owned<Event> ready_;
  std::shared_ptr<const void> keep_;  // released when the call is done

  void let_streams_go();
  void let_owner_go() noexcept;
  std::atomic<bool> joined_{false};  // a stream waits for the call
  std::mutex streams_mutex_;         // guards the members below
  Event end_;
  std::vector<std::unique_ptr<Gate>> gates_;  // opened when the call is done
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
  if (done()) return false;
  Recorder::stamp(record());
  return leave_running(std::move(self));
}

/// Keeps the call while the backend performs it, and fails the communicator if the call fails. Reused for later
/// calls.
class CollectiveOperation final : public Operation, private Call {
 public:
  struct Parts {
    Collective& call;              ///< counts are moved out of it
    const Route* route = nullptr;  ///< null: not chosen yet
    Signature summary;             ///< sent with messages to verify the call
    Signature recorded;            ///< the same, also if messages are not verified
    Clock::duration allowed{};
    bool on_device = false;        ///< come_after() was called for it
    Router* router = nullptr;      ///< chooses the route later if `route` is null
    std::string_view wanted = {};  ///< the backend or algorithm that the caller requested; empty: none
    const char* label = nullptr;   ///< CallOptions::label
  };
  using Spare = Pool<CollectiveOperation>;
  /// When the call is done and all handles are dropped, the object is given to `spare`, which `home.keeper` keeps
  /// alive.
  void prepare(Home&& home, Spare& spare, const Parts& parts);

  /// For a call on one scalar: copies the value into this object, which also receives the result. Before the launch.
  void keep_value() noexcept;

  /// The state of a call after its backend's start().
  struct Begun {
    bool is_over = false;                ///< it has completed successfully
    std::exception_ptr thrown = {};      ///< thrown by start()
    std::optional<Status> failure = {};  ///< it has ended with this failure
    std::optional<Status> trouble = {};  ///< the failure that the backend reported by trouble()
  };
  /// Starts the call in its backend before the operation is prepared. If the call completes at once, this object is
  /// reused for the next call; otherwise carry_on() must follow. Token held.
  Begun start_unprepared(GroupState& group, const Parts& parts);
  /// Prepares the operation and continues the call as start() would. Token held.
  bool carry_on(Home&& home, Spare& spare, const Parts& parts, const Begun& begun);

  /// Starts the waiting calls of a communicator, in order, up to the first one that lacks its route or verification.
  /// Token held.
  static void start_those_ready(GroupState& group);

  std::string where() const override;
  void partners(std::vector<int>& ranks) const override {
    if (tracker != nullptr) tracker->partners(*this, ranks);
  }
  void cancel(const Status& why) noexcept override;
  bool look() override;

 private:
  bool over_wire() const noexcept override { return route_ != nullptr && route_->own_plans; }
  RecordEntry entry(std::uint32_t number) const noexcept override;
  void prepare_all_but_call(Home&& home, Spare& spare, const Parts& parts);
  void take_over(const Parts& parts);
  void begin() override;
  bool takes() const noexcept override;
  void verify();
  bool is_ready();
  void start_call();
  void give_to_backend();
  void finish_unstarted(const Status& why);
  // Call: reports from the backend
  void trouble(const Status& why) override;
  void enqueued(const Event& end) override { note_enqueued(end); }
  void waiting() override { Recorder::stamp(record()); }
  void first_data() override {
    if (Record* const mine = record(); mine != nullptr) Recorder::arrived(*mine);
  }
  void abandoned() override { keep_owner_for_ever(); }
  void ended(const Status& status) override;
  void verified(const Status& status);
  void retire() noexcept override;

  Spare* spare_ = nullptr;
  Signature recorded_;            // its signature, also if messages do not carry it
  const Route* route_ = nullptr;  // null: router_ has not chosen the route yet
  Router* router_ = nullptr;
  std::string wanted_;
  Begun* begun_ = nullptr;                      // set while start_unprepared() is in the backend's start()
  bool verified_ = false;                       // verification has succeeded or is not needed
  std::unique_ptr<Verification> verification_;  // only with TUTTI_VERIFY=full
};

}  // namespace tutti
