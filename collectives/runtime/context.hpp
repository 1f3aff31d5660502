// Context: one rank's place in a job: its transports, its communicators' states, and what happens on failure.
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
#include <vector>

#include "collectives/bootstrap/bootstrap.hpp"
#include "collectives/bootstrap/topology.hpp"
#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/progress.hpp"
#include "collectives/runtime/seekers.hpp"
#include "transports/core/fork.hpp"
#include "transports/transport.hpp"

namespace tutti {

struct Wiring {
  std::unique_ptr<Transport> transport;
  std::vector<std::string> routes;    ///< by rank: "self", "shm", "tcp"
  Topology topology;                  ///< of the world
  std::string tuned;                  ///< rank 0's measured rules
  std::vector<std::string> backends;  ///< names that rules may use: those of rank 0's installation
  int local_ranks = 1;                ///< ranks on this host, this one included
  int local_cores = 1;                ///< cores that they may use, all together
  bool same_cores = true;             ///< their affinity masks are equal
};

/// Finds out which transport reaches whom, and connects. Collective over the job. Agrees on
/// rank 0's settings first (see connect.cpp). Throws Error.
Wiring connect_all(const Bootstrap& bootstrap, Settings& settings, TransportListener& listener);

/// Threads: launch(), fail(), group functions: any. The rest is the token holder's.
class Context final : public Driver,
                      private TransportListener,
                      private ProgressHooks,
                      public std::enable_shared_from_this<Context> {
 public:
  /// Collective over the job; blocks until every rank is there. Throws Error.
  static std::shared_ptr<Context> make(const Bootstrap& bootstrap);
  ~Context() override;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const Settings& settings() const noexcept { return settings_; }
  bool checks_messages() const noexcept { return checks_messages_; }        ///< TUTTI_VERIFY is not off
  bool verifies_each_call() const noexcept { return verifies_each_call_; }  ///< TUTTI_VERIFY=full
  const std::vector<std::string>& routes() const noexcept { return wiring_.routes; }
  const Topology& topology() const noexcept { return wiring_.topology; }

  /// Token held, but for what its header allows to any thread.
  Transport& wire() noexcept { return *wiring_.transport; }

  /// Rank 0's measured rules, and the names of backends that rules may use.
  const std::string& tuned() const noexcept { return wiring_.tuned; }
  const std::vector<std::string>& backends() const noexcept { return wiring_.backends; }

  /// What the ranks share beside messages; null in a world of one. Any thread.
  const std::shared_ptr<Store>& store() const noexcept { return store_; }
  std::int64_t native() const noexcept { return native_; }

  /// Those that wait for a message from anyone. Token held.
  Seekers& seekers();

  /// Runs `errand` under the token, and returns when it has run. Any thread that does not hold it. What it throws
  /// is thrown here.
  void do_holding(std::function<void()> errand);

  /// Sends to the user's handler of `group` on rank `to` (a world rank). Any thread that does not hold the token.
  void send_control(const GroupState& group, int to, ConstBytes message);
  static constexpr std::size_t most_control = Transport::max_control - 16;

  /// Drives `engine` along, until nobody else holds it.
  void add_engine(std::shared_ptr<Engine> engine) { progress_->add(std::move(engine)); }
  /// Ends soon those that nobody else holds.
  void drop_engines() {
    if (fork_generation() == generation_) progress_->drop_unused();
  }

  /// The same for one that plays calls of `group`, and is told when that ends.
  void add_backend(GroupState& group, const std::shared_ptr<Backend>& backend);

  /// For a group that is made by its members (world ranks) alone: the same on all of them, another one each time.
  std::uint64_t next_group_id(std::span<const int> members, std::string_view name);

  /// Fills in the hosts of its members.
  std::shared_ptr<GroupState> add_group(Group group);

  /// Throws Error{invalid} in a forked child.
  void refuse_in_child() const;
  /// Starts an operation that was prepared, or another task, soon. Never blocks.
  void launch(Startable& task) { progress_->launch(task); }
  /// The same before this returns, or false: then others are at it, and nothing has been done.
  bool launch_now(Startable& task) { return progress_->launch_now(task); }
  void begun(Ref<Operation> operation);           // by Operation::start
  Ref<Operation> finished(Operation& operation);  // by Operation::finish
  /// An operation of `group` met `why` (token). Acted on after the news that has arrived, and only if
  /// that has not ended the group already: then this was a mere consequence, and is not spread.
  void trouble(std::shared_ptr<GroupState> group, const Status& why);
  /// Finishes a failed operation after all causes that have arrived are acted on: the first one counts.
  void postpone(Ref<Operation> operation, const Status& status);

  /// Ends the communicator `why.group` (0: all that `why.culprit` is in), here and everywhere.
  void fail(const Cause& why);

  // Driver
  void drive(WorkState& work, Deadline until) override;
  void abandon(WorkState& work) noexcept override;
  void defer(std::function<void()> callback) override;

 private:
  struct Inbox {
    int from;  // a world rank
    std::vector<std::byte> message;
  };

  Context(const Bootstrap& bootstrap);
  // TransportListener: only takes note; news() acts.
  void failed(const Cause& why) override;
  void control(int from, ConstBytes message) override;
  // ProgressHooks
  void news() override;
  void tick(Clock::time_point now) override;

  void add_group(const std::shared_ptr<GroupState>& state, std::vector<Inbox>& early);
  void act_on(const Cause& why);
  void publish(const Cause& why) noexcept;
  std::optional<Cause> published(std::uint64_t group) noexcept;
  void ask_store(const std::function<void()>& question) noexcept;
  void end_group(GroupState& group, const Status& why);
  void end_backends(const GroupState& group);
  std::vector<std::shared_ptr<GroupState>> groups();
  // watchdog.cpp: who is where, when a call takes long
  void ask(Operation& operation, Clock::time_point now);
  void read_control(int from, ConstBytes message);
  void answer(int from, ConstBytes query);
  void note_answer(int from, ConstBytes answer);
  void deliver(int from, ConstBytes letter);
  void deliver_to(const std::shared_ptr<GroupState>& group, int from, ConstBytes message);
  void expire(Operation& operation);

  int rank_, size_;
  std::uint32_t generation_ = 0;  // of forks; see core/fork.hpp
  Settings settings_;
  bool checks_messages_ = true, verifies_each_call_ = false;
  std::shared_ptr<Store> store_;
  std::int64_t native_;
  bool store_gone_ = false;  // token
  Wiring wiring_;
  std::unique_ptr<Progress> progress_;

  std::mutex groups_mutex_;
  std::map<std::uint64_t, std::weak_ptr<GroupState>> groups_;
  std::vector<Cause> ended_;                           // all causes so far, for groups that are made later
  std::map<std::uint64_t, std::vector<Inbox>> early_;  // letters to groups that are still being made here
  std::map<std::string, std::uint64_t> named_;         // members and name, and how often a group was made of them

  std::mutex news_mutex_;
  std::vector<Cause> causes_;
  std::vector<Inbox> inbox_;
  std::vector<std::shared_ptr<GroupState>> joined_late_;                 // which a backend joined when they had failed
  std::vector<std::pair<std::shared_ptr<GroupState>, Cause>> troubles_;  // token
  std::vector<std::pair<Ref<Operation>, Status>> postponed_;             // token
  std::set<std::pair<std::uint64_t, int>> acted_on_;                     // (group, culprit): each is spread once

  std::vector<Ref<Operation>> running_;  // token
  std::shared_ptr<Seekers> seekers_;     // token
};

}  // namespace tutti
