// inproc: ranks are threads of one process. The reference transport; read this one first.
//
// The ranks of a job share a Hub, whose single mutex guards all shared state. send() appends a message to the
// receiver's inbox. The receiver's progress() matches it with a recv(), copies or folds directly from the sender's
// memory, and queues the sender's `done` for the sender's progress(). Small messages are buffered at send time while
// credit is available.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "transports/causes.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/host.hpp"
#include "transports/core/open_files.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

constexpr std::size_t eager_limit = 16 << 10, eager_credit = 64 << 10;

struct Message {
  int from = 0;
  Tag tag;
  std::uint64_t call = 0;
  ConstBytes data;              // in the sender's memory or in `kept`
  std::vector<std::byte> kept;  // a buffered small message, whose send is already done
  bool small = false;
  Done done;
  std::optional<Status> withdrawn = {};  // its send was cancelled, and its recv will fail with this
};

struct Receive {
  int from = 0;
  Tag tag;
  std::uint64_t call = 0;
  Bytes into;
  const std::byte* with = nullptr;  // null: copy instead of reducing
  Fold fold;
  Done done;
};

struct Finished {
  Done done;
  Status status;
};

// Wakes a rank that sleeps in poll().
struct Bell {
  const Descriptor fd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  Bell() {
    if (!fd)
      throw Error(Code::resource,
                  std::string("eventfd failed: ") + std::strerror(errno) + ". " + about_open_files(errno, 1));
  }
  void ring() const { eventfd_write(fd.fd(), 1); }
  void quiet() const {
    eventfd_t count;
    eventfd_read(fd.fd(), &count);
  }
};

// State of one rank that other ranks access; guarded by the hub's mutex.
struct Member {
  std::list<Message> inbox;
  std::vector<Finished> finished;
  std::vector<std::pair<int, std::vector<std::byte>>> controls;
  std::vector<Cause> causes;
  std::vector<std::size_t> credit;  // by receiver: bytes of small messages that may still be buffered
  bool armed = false, joined = false, left = false;
  std::atomic<bool> news = false;  // progress() has something to do
  Bell sleep, watch;

  void wake() {
    news = true;
    if (armed) sleep.ring();
  }
};

struct Hub {
  explicit Hub(int size) : members(static_cast<std::size_t>(size)) {
    for (Member& member : members) member.credit.assign(members.size(), eager_credit);
  }
  Member& operator[](int rank) { return members[static_cast<std::size_t>(rank)]; }

  std::mutex mutex;
  std::condition_variable joined;
  std::vector<Member> members;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(int rank, std::shared_ptr<Hub> hub, TransportListener& listener)
      : Transport("inproc", rank, static_cast<int>(hub->members.size())),
        hub_(std::move(hub)),
        me_((*hub_)[rank]),
        listener_(listener) {}

  // Goodbye: buffered messages remain readable; all other operations with this rank fail.
  ~InprocTransport() override {
    const std::scoped_lock lock(hub_->mutex);
    me_.left = true;
    for (Message& message : me_.inbox) refuse(message, Status(ended(rank(), message.from)));
    me_.inbox.clear();
    for (std::size_t to = 0; to < hub_->members.size(); ++to) {
      withdraw(hub_->members[to], Status(ended(rank(), static_cast<int>(to))), [](const Tag&) { return true; });
      hub_->members[to].wake();
    }
  }

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    const std::scoped_lock lock(hub_->mutex);
    Member& receiver = (*hub_)[to];
    if (receiver.left) return finish(me_, std::move(done), Status(ended(to, rank())));
    std::size_t& credit = me_.credit[static_cast<std::size_t>(to)];
    Message message{rank(), tag, call, from, {}, from.size() <= std::min(eager_limit, credit), std::move(done)};
    if (message.small) {
      credit -= from.size();
      message.kept.assign(from.begin(), from.end());
      message.data = message.kept;
      finish(me_, std::move(message.done), {});
    }
    receiver.inbox.push_back(std::move(message));
    receiver.wake();
  }

  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    receives_.push_back({from, tag, call, into, nullptr, {}, std::move(done)});
    me_.news = true;
  }

  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    receives_.push_back({from, tag, call, into, with, fold, std::move(done)});
    me_.news = true;
  }

  std::optional<Unmatched> arrived(int from, const Tag& tag) override {
    const std::scoped_lock lock(hub_->mutex);
    match_all();
    for (const Message& m : me_.inbox)
      if (m.tag == tag && (from == any_rank || m.from == from)) return Unmatched{m.from, m.data.size(), m.call};
    return std::nullopt;
  }

  bool retract(int from, const Tag& tag, const std::byte* into) override {
    const std::scoped_lock lock(hub_->mutex);
    match_all();
    const auto found = std::ranges::find_if(receives_, [&](const Receive& receive) {
      return receive.from == from && receive.tag == tag && receive.into.data() == into;
    });
    if (found == receives_.end()) return false;
    receives_.erase(found);
    return true;
  }

  void control(int to, ConstBytes message) override {
    const std::scoped_lock lock(hub_->mutex);
    if ((*hub_)[to].left) return listener_.departed(to);
    (*hub_)[to].controls.emplace_back(rank(), std::vector(message.begin(), message.end()));
    (*hub_)[to].wake();
    (*hub_)[to].watch.ring();
  }

  void spread(const Cause& why) noexcept override {
    const std::scoped_lock lock(hub_->mutex);
    for (Member& other : hub_->members) {
      if (&other == &me_ || other.left) continue;
      other.causes.push_back(why);
      other.wake();
      other.watch.ring();
    }
  }

  void cancel(std::uint64_t group, const Status& why) noexcept override {
    const auto concerns = [&](const Tag& tag) { return group == 0 || tag.group == group; };
    {
      const std::scoped_lock lock(hub_->mutex);
      receives_.remove_if(
          [&](Receive& receive) { return concerns(receive.tag) && (finish(me_, std::move(receive.done), why), true); });
      me_.inbox.remove_if([&](const Message& m) {
        if (m.small && concerns(m.tag)) give_back(m);
        return (m.small || m.withdrawn) && concerns(m.tag);
      });
      for (Member& other : hub_->members) withdraw(other, why, concerns);
    }
    run_finished();
  }

  bool progress() override {
    if (!me_.news.exchange(false)) return false;
    watch();
    {
      const std::scoped_lock lock(hub_->mutex);
      match_all();
    }
    return run_finished();
  }

  Fds fds() const noexcept override { return {me_.sleep.fd.fd(), me_.watch.fd.fd()}; }

  bool arm(bool on) override {
    const std::scoped_lock lock(hub_->mutex);
    me_.armed = on && !me_.news;
    if (!on) me_.sleep.quiet();
    return me_.armed || !on;
  }

  void watch() override {
    const std::scoped_lock in_order(handing_over_);  // another thread may be in progress(), which calls watch()
    std::vector<Cause> causes;
    std::vector<std::pair<int, std::vector<std::byte>>> controls;
    {
      const std::scoped_lock lock(hub_->mutex);
      causes.swap(me_.causes);
      controls.swap(me_.controls);
      me_.watch.quiet();
    }
    for (const Cause& why : causes) listener_.failed(why);
    for (const auto& [from, message] : controls) listener_.control(from, message);
  }

 private:
  // The following functions are called with the hub's mutex held.
  void finish(Member& whose, Done done, const Status& status) {
    if (!done) return;
    whose.finished.push_back({std::move(done), status});
    whose.wake();
  }
  void refuse(Message& message, const Status& why) { finish((*hub_)[message.from], std::move(message.done), why); }
  // A withdrawn message stays in the inbox if a later one with an equal tag, which is small and has arrived, would be
  // taken for it otherwise.
  template <class Predicate>
  void withdraw(Member& receiver, const Status& why, Predicate concerns) {
    auto& inbox = receiver.inbox;
    for (auto next = inbox.begin(); next != inbox.end();) {
      const auto m = next++;
      if (m->from != rank() || m->small || m->withdrawn || !concerns(m->tag)) continue;
      finish(me_, std::move(m->done), why);
      m->withdrawn = why;
      m->data = {};
      const bool is_followed = std::any_of(
          next, inbox.end(), [&](const Message& later) { return later.from == rank() && later.tag == m->tag; });
      if (!is_followed) inbox.erase(m);
      receiver.wake();
    }
  }
  void give_back(const Message& m) { (*hub_)[m.from].credit[static_cast<std::size_t>(rank())] += m.data.size(); }

  void match_all() {
    receives_.remove_if([&](Receive& receive) { return match(receive); });
  }

  // Completes `receive` with the first message from its sender with its tag, or fails it because its sender has left.
  bool match(Receive& receive) {
    const auto message = std::find_if(me_.inbox.begin(), me_.inbox.end(),
                                      [&](const Message& m) { return m.from == receive.from && m.tag == receive.tag; });
    if (message == me_.inbox.end()) {
      if (!(*hub_)[receive.from].left) return false;
      finish(me_, std::move(receive.done), Status(ended(receive.from, rank())));
      return true;
    }
    const Status outcome = message->withdrawn ? *message->withdrawn : deliver(*message, receive);
    if (message->small) give_back(*message);
    if (message->small && !outcome.ok()) {  // the sender's operation has succeeded already
      (*hub_)[message->from].causes.push_back(outcome.cause());
      (*hub_)[message->from].wake();
      (*hub_)[message->from].watch.ring();
    }
    refuse(*message, outcome);
    finish(me_, std::move(receive.done), outcome);
    me_.inbox.erase(message);
    return true;
  }

  Status deliver(const Message& message, const Receive& receive) const {
    const std::size_t bytes = receive.into.size();
    if (message.call != receive.call || message.data.size() != bytes)
      return Status(mismatch(message.tag, {message.from, message.call, message.data.size()},
                             {rank(), receive.call, bytes}, rank()));
    if (receive.with)
      receive.fold(receive.into.data(), receive.with, message.data.data(), bytes);
    else if (bytes)
      std::memcpy(receive.into.data(), message.data.data(), bytes);
    return {};
  }

  bool run_finished() {  // without the mutex, because a `done` may call send() or recv()
    std::vector<Finished> finished;
    {
      const std::scoped_lock lock(hub_->mutex);
      finished.swap(me_.finished);
    }
    for (const Finished& one : finished) one.done(one.status);
    return !finished.empty();
  }

  std::shared_ptr<Hub> hub_;
  Member& me_;
  TransportListener& listener_;
  std::mutex handing_over_;      // locked before the hub's mutex
  std::list<Receive> receives_;  // not shared: used by this rank alone
};

// The hub of this job and meeting; it exists as long as it has members.
std::shared_ptr<Hub> hub_of(const Rendezvous& meeting) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Hub>> hubs;
  static int meetings = 0;
  std::string name = meeting.settings->job + "/";
  const std::scoped_lock lock(mutex);
  const std::string mine = std::to_string(++meetings);
  name += meeting.store ? meeting.store->set_once("hub", mine) : mine;
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Hub> hub = hubs[name].lock();
  if (!hub) hubs[name] = hub = std::make_shared<Hub>(meeting.size);
  return hub;
}

Connected connect(const Rendezvous& meeting) {
  const auto hub = hub_of(meeting);
  Connected result{std::make_unique<InprocTransport>(meeting.rank, hub, *meeting.listener), {}, {}};
  std::unique_lock lock(hub->mutex);
  (*hub)[meeting.rank].joined = true;
  hub->joined.notify_all();
  for (const int peer : meeting.peers) {
    const auto here = [&] { return (*hub)[peer].joined; };
    if (meeting.until == never)
      hub->joined.wait(lock, here);
    else if (!hub->joined.wait_until(lock, meeting.until, here)) {
      lock.unlock();
      throw Error(
          Code::timeout,
          "rank " + std::to_string(peer) + " did not join the job in this process; start a thread for every rank",
          peer);
    }
  }
  return result;
}

}  // namespace

extern const Provider inproc_provider;
const Provider inproc_provider{"inproc", "between threads of one process", [](const Settings&) { return Viability{}; },
                               // One domain per process, whatever host ids its threads use.
                               [](const Settings&) { return host_identity("") + "/" + std::to_string(getpid()); },
                               connect};

}  // namespace tutti
