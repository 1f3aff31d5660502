// Context: one rank's connection to a job, shared by all its communicators: transports, progress and failure
// handling.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectives/runtime/agreements.hpp"
#include "collectives/runtime/any_source.hpp"
#include "collectives/runtime/inbox.hpp"
#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/progress.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/fork.hpp"
#include "tutti/provider/packed.hpp"
#include "tutti/provider/transport.hpp"
#include "tutti/topology.hpp"

namespace tutti {

/// For each rank, the name of the transport that reaches it: "self", "shm", "tcp". Equal texts are stored once.
class Routes {
 public:
  /// Appends the text of the next rank.
  void add(const std::string& text);
  const std::string& operator[](int rank) const { return texts_[numbers_.at(static_cast<std::size_t>(rank))]; }

 private:
  std::vector<std::string> texts_;
  RunList numbers_;  // by rank
};

struct Wiring {
  std::unique_ptr<Transport> transport;
  Routes routes;
  Topology topology;                  ///< of the world
  std::string tuned;                  ///< rank 0's measured rules
  std::vector<std::string> backends;  ///< names that rules may use: the backends installed on rank 0
  int local_ranks = 1;                ///< ranks on this host, this one included
  int local_cores = 1;                ///< cores that these ranks may use together
  bool same_cores = true;             ///< true: their affinity masks are equal
};

/// Adopts rank 0's settings (see connect.cpp), chooses a transport for each pair of ranks, and connects them.
/// Collective over the job; blocks. Throws Error.
Wiring connect_all(const Bootstrap& bootstrap, Settings& settings, TransportListener& listener);

/// One rank's connection to a job. Threads: functions that start or fail calls, or that concern groups, may be called
/// by any thread. Only the holder of the progress token, a lock, may call a function that says "Token held".
class Context final : public Driver,
                      private TransportListener,
                      private ProgressHooks,
                      public std::enable_shared_from_this<Context> {
 public:
  /// Connects to the job. Collective over it; blocks until every rank is connected. Throws Error.
  static std::shared_ptr<Context> make(const Bootstrap& bootstrap);
  ~Context() override;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const Settings& settings() const noexcept { return settings_; }
  bool checks_messages() const noexcept { return checks_messages_; }        ///< TUTTI_VERIFY is not off
  bool verifies_each_call() const noexcept { return verifies_each_call_; }  ///< TUTTI_VERIFY=full
  const Routes& routes() const noexcept { return wiring_.routes; }
  const Topology& topology() const noexcept { return wiring_.topology; }

  /// The transport. Token held, except for the functions that its header allows to any thread.
  Transport& wire() noexcept { return *wiring_.transport; }

  /// Rank 0's measured rules, and the names of backends that rules may use.
  const std::string& tuned() const noexcept { return wiring_.tuned; }
  const std::vector<std::string>& backends() const noexcept { return wiring_.backends; }

  /// The key-value store shared by the ranks; null in a world of one. Any thread.
  const std::shared_ptr<Store>& store() const noexcept { return store_; }
  /// See Bootstrap::commons and Bootstrap::epoch.
  const std::shared_ptr<Store>& commons() const noexcept { return commons_; }
  std::uint64_t epoch() const noexcept { return epoch_; }
  const std::string& launcher() const noexcept { return launcher_; }
  std::int64_t native() const noexcept { return native_; }

  /// The engine for receives from any rank; the first call creates it. Token held.
  AnySource& any_source();

  /// Runs `task` with the token held, and returns when it has run. Exceptions of `task` are rethrown here. Any
  /// thread that does not hold the token.
  void do_holding(std::function<void()> task);

  /// Agrees with the other ranks of `group`, also if it has failed: see Communicator::agree(). `number` is set to the
  /// number of the agreement, from 1. Afterwards the ranks that the others hold for lost are held for lost here too.
  /// Throws Error. Any thread that does not hold the token.
  Consensus::Outcome agree(const GroupState& group, Consensus::Value vote, Seconds allowed, std::uint32_t& number);

  /// Sends a control message to the user's handler of `group` on world rank `to`. Any thread that does not hold the
  /// token.
  void send_control(const GroupState& group, int to, ConstBytes message);
  static constexpr std::size_t most_control = Transport::max_control - 16;

  /// Drives `engine` until the context is its last owner. Any thread.
  void add_engine(std::shared_ptr<Engine> engine) { progress_->add(std::move(engine)); }
  /// Releases `leaving`, the engines of a communicator that ends, and soon destroys all engines without another owner.
  void drop_engines(std::vector<std::shared_ptr<Engine>> leaving);

  /// What the doctor said of this failure; empty if nothing. Any thread.
  std::string opinion(const Status& failure) const;
  /// The recorder of this rank; null if nothing is recorded. Any thread.
  const std::shared_ptr<Recorder>& recorder() const noexcept { return recorder_; }

  /// As add_engine(), for a backend that performs calls of `group`. The backend is cancelled when the group fails.
  void add_backend(GroupState& group, const std::shared_ptr<Backend>& backend) {
    group.note_other_backend();
    add_engine(backend);
    notify(group, backend);
  }
  /// Registers `backend` to be cancelled when the group fails. Does not drive it: its transport does.
  void notify(GroupState& group, const std::shared_ptr<Backend>& backend);

  /// The id of a group that only its members (world ranks) create: equal on all members, different for each group.
  std::uint64_t next_group_id(std::span<const int> members, std::string_view name);

  /// Registers a group and sets its table of hosts. `name` is its name in reports.
  std::shared_ptr<GroupState> add_group(Group group, std::string name);
  /// Called when the communicator is destroyed on this rank.
  void forget_group(std::uint64_t id) noexcept;

  /// Throws Error{invalid} in a forked child.
  void refuse_in_child() const;
  /// Starts a prepared operation or another task soon. Never blocks.
  void launch(Startable& task) { progress_->launch(task); }
  /// See Progress::launch_now.
  template <class Start>
  bool launch_now(Start start) {
    return progress_->launch_now(std::move(start));
  }
  void begun(Ref<Operation> operation);           // called by Operation::start
  Ref<Operation> finished(Operation& operation);  // called by Operation::end
  /// Reports that an operation of `group` failed with `why`. The report is handled after the causes that have arrived,
  /// and ignored if one of them has failed the group. Token held.
  void trouble(std::shared_ptr<GroupState> group, const Status& why);
  /// For a failed group: soon receives what has arrived, and then fails the calls that are still running. Token held.
  void settle(std::shared_ptr<GroupState> group);
  /// Finishes a failed operation after all causes that have arrived are handled, so that it reports the first cause.
  void postpone(Ref<Operation> operation, const Status& status);

  /// Fails the communicator `why.group` on all ranks. If that is 0, fails every communicator that contains the world
  /// rank `why.culprit`, or all communicators if the culprit is below 0.
  void fail(const Cause& why);

  // Driver
  void drive(WorkState& work, Deadline until) override;
  void abandon(WorkState& work) noexcept override;
  void defer(std::function<void()> callback) override;

 private:
  struct Early {
    int from;  // world rank
    std::vector<std::byte> message;
  };

  Context(const Bootstrap& bootstrap);
  static void delete_elsewhere(Context* context) noexcept;
  // TransportListener: records the event; news() handles it.
  void failed(const Cause& why) override;
  void control(int from, ConstBytes message) override;
  void departed(int rank) override;
  // ProgressHooks
  void news() override;
  void tick(Clock::time_point now) override;
  void begin_wait(const WorkState& work) noexcept override;
  void end_wait() noexcept override;
  void record_partners(Clock::time_point now);
  void ask_doctor(const Cause& why, Clock::duration patience);

  void add_group(const std::shared_ptr<GroupState>& state, std::vector<Early>& early);
  void act_on(Cause why);
  void publish(const Cause& why) noexcept;
  void publish_reason() noexcept;
  std::optional<Cause> published(const std::string& key) noexcept;
  bool any_published() noexcept;
  void ask_store(const std::function<void()>& question) noexcept;
  void take_what_has_arrived(int lost = -1);
  bool has_running(const GroupState& group) const;
  bool has_running_elsewhere(int rank) const;  // true: a call with `rank` may run on a backend with another engine
  void end_group(GroupState& group, const Status& why);
  void end_backends(const GroupState& group);
  std::vector<std::shared_ptr<GroupState>> groups();
  std::shared_ptr<GroupState> group_of(std::uint64_t id);  // null: not made yet on this rank, or already destroyed
  // watchdog.cpp: when a call takes long, asks other ranks which calls they have made
  void ask(Operation& operation, Clock::time_point now);
  const std::vector<int>& whom_to_ask(const Operation& operation);
  void tell_askers(const Operation& operation, Clock::time_point now);
  Operation* running_call(std::uint64_t group, std::uint32_t sequence) const;
  void reply_to(int asker, const GroupState& group, std::uint32_t sequence, Signature asked);
  void fail_as_mismatch(int other, const CallRecord& mine, Signature theirs, std::uint64_t group);
  std::string nobody_lacks(const Operation& operation) const;
  void read_control(int from, ConstBytes message);
  void answer(int from, ConstBytes query);
  void note_answer(int from, ConstBytes answer);
  void deliver(int from, ConstBytes message);
  void deliver_to(const std::shared_ptr<GroupState>& group, int from, ConstBytes message);
  void expire(Operation& operation);
  void refuse_if_cast_off() const;
  Error not_agreed(const GroupState& group, const PendingAgreement& pending, Seconds allowed);
  std::string lacking(const Operation& operation, int& first) const;

  int rank_, size_;
  std::uint32_t generation_ = 0;  // see tutti/fork.hpp; differs in a forked child
  Settings settings_;
  bool checks_messages_ = true, verifies_each_call_ = false;
  std::shared_ptr<Store> store_, commons_;
  const std::uint64_t epoch_;
  const std::string launcher_;
  std::int64_t native_;
  bool store_gone_ = false;             // token held
  std::shared_ptr<Recorder> recorder_;  // null: nothing is recorded
  mutable std::mutex opinion_mutex_;
  std::string opinion_, opinion_about_;  // the latter: the text of the cause
  Wiring wiring_;
  std::unique_ptr<Progress> progress_;

  std::mutex groups_mutex_;
  std::unordered_map<std::uint64_t, std::weak_ptr<GroupState>> groups_;
  std::size_t sweep_groups_at_ = 64;                   // size of groups_ at which ended groups are removed
  std::vector<Cause> ended_;                           // all causes so far, for groups made later
  std::map<std::uint64_t, std::vector<Early>> early_;  // control messages for groups that this rank has not made yet
  std::map<std::string, std::uint64_t> named_;         // by members and name: the number of such groups made so far

  std::mutex news_mutex_;
  std::vector<Cause> causes_;
  Inbox inbox_;
  std::vector<std::shared_ptr<GroupState>> joined_late_;  // failed groups that a backend joined afterwards
  std::vector<int> departed_;  // ranks for which control messages were dropped, as they have ended normally
  std::vector<std::pair<std::shared_ptr<GroupState>, Cause>> troubles_;  // token held
  std::vector<std::shared_ptr<GroupState>> settling_;                    // token held
  std::vector<std::pair<Ref<Operation>, Status>> postponed_;             // token held
  Inbox reading_;                                     // the messages that news() is handling; token held
  std::set<std::pair<std::uint64_t, int>> acted_on_;  // (group, culprit) of the causes handled; token held
  // Token held.
  Agreements agreements_{rank_, [this](int to, ConstBytes letter) { wire().control(to, letter); }};

  std::vector<Ref<Operation>> running_;    // token held
  std::vector<int> asked_;                 // see whom_to_ask(); token held
  std::shared_ptr<AnySource> any_source_;  // token held
};

}  // namespace tutti
