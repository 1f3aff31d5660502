// chaos: operations are held for a random number of progress() calls, and steps are counted until a fault.
#include "transports/decorators/chaos.hpp"

#include <signal.h>

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "transports/decorators/decorator.hpp"

namespace tutti {
namespace {

/// The faults of the rank itself: counts its steps and plays kill and stop. Any thread may make backends, but steps are
/// counted with the progress token held.
class OwnFaults {
 public:
  OwnFaults(const Chaos& chaos, int rank, bool is_thread)
      : kill_(chaos.kill.rank == rank ? chaos.kill.step : 0),
        stop_(chaos.stop.rank == rank ? chaos.stop.step : 0),
        delay_(chaos.delay),
        is_thread_(is_thread),
        dice_(chaos.seed, ~static_cast<std::uint64_t>(rank)) {
    if (is_thread && stop_ > 0)
      throw Error(Code::invalid, "chaos: stop=" + std::to_string(rank) + "@" + std::to_string(stop_) +
                                     " needs ranks that are processes, and those of inproc are threads; take kill or "
                                     "lose, or another TUTTI_TRANSPORT");
  }

  void step() {
    ++steps_;
    if (steps_ == kill_) plan(SIGKILL);
    if (steps_ == stop_) plan(SIGSTOP);
    if (rounds_ == 0) strike();
  }
  void progress() {
    if (rounds_ > 0 && --rounds_ == 0) strike();
  }
  bool is_dead() const noexcept { return is_dead_; }
  bool is_planned() const noexcept { return rounds_ > 0; }

 private:
  void plan(int signal) {
    signal_ = signal;
    rounds_ = dice_.below(delay_ + 1);
  }
  void strike() {
    if (signal_ == 0) return;
    if (is_thread_)
      is_dead_ = true;
    else
      ::raise(std::exchange(signal_, 0));
  }

  std::uint64_t kill_, stop_, steps_ = 0;
  int delay_, signal_ = 0, rounds_ = 0;
  bool is_thread_, is_dead_ = false;
  Dice dice_;
};

/// Counts the calls of the transport's own backend as steps.
class CountedBackend final : public Backend {
 public:
  CountedBackend(std::unique_ptr<Backend> inner, OwnFaults& own) : inner_(std::move(inner)), own_(own) {}
  std::string_view name() const noexcept override { return inner_->name(); }
  Status supports(const Collective& call, std::string_view algorithm) const override {
    return inner_->supports(call, algorithm);
  }
  void start(Call& call) override {
    own_.step();
    inner_->start(call);
  }
  void cancel(const Status& why) noexcept override { inner_->cancel(why); }
  bool progress() override { return inner_->progress(); }
  Fds fds() const noexcept override { return inner_->fds(); }
  bool arm(bool on) override { return inner_->arm(on); }
  bool polled() const noexcept override { return inner_->polled(); }
  void watch() override { inner_->watch(); }

 private:
  std::unique_ptr<Backend> inner_;
  OwnFaults& own_;
};

class ChaosTransport final : public Decorator {
 public:
  ChaosTransport(std::unique_ptr<Transport> transport, TransportListener& listener, const Chaos& chaos)
      : Decorator(std::move(transport)),
        listener_(listener),
        chaos_(chaos),
        faults_of_calls_(chaos, rank()),
        own_(chaos, rank(), name() == "inproc" && size() > 1),
        dice_(chaos.seed, static_cast<std::uint64_t>(rank())) {}

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    hold({true, to, tag, nullptr, 0, std::move(done),
          [=, this](Done then) { inner().send(to, tag, call, from, std::move(then)); }});
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    hold({false, from, tag, into.data(), 0, std::move(done),
          [=, this](Done then) { inner().recv(from, tag, call, into, std::move(then)); }});
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    hold({false, from, tag, into.data(), 0, std::move(done),
          [=, this](Done then) { inner().recv_reduce(from, tag, call, into, with, fold, std::move(then)); }});
  }

  // Messages that match a held recv are not reported.
  std::optional<Unmatched> arrived(int from, const Tag& tag) override {
    const bool is_met = std::ranges::any_of(held_, [&](const Held& one) {
      return !one.sending && one.tag == tag && (from == any_rank || one.peer == from);
    });
    return is_met ? std::nullopt : Decorator::arrived(from, tag);
  }

  // Tries the inner transport first, because its operations are older than the held ones.
  bool retract(int from, const Tag& tag, const std::byte* into) override {
    if (Decorator::retract(from, tag, into)) return true;
    const auto found = std::ranges::find_if(
        held_, [&](const Held& one) { return !one.sending && one.peer == from && one.tag == tag && one.into == into; });
    if (found == held_.end()) return false;
    held_.erase(found);
    return true;
  }

  void cancel(std::uint64_t group, const Status& why) noexcept override {
    Decorator::cancel(group, why);
    end_held([&](const Held& one) { return group == 0 || one.tag.group == group; }, why);
  }

  std::unique_ptr<Backend> make_backend(const Group& group) override {
    auto own = chaos_.backend ? inner().make_backend(group) : nullptr;
    return own ? std::make_unique<CountedBackend>(std::move(own), own_) : nullptr;
  }

  bool progress() override {
    own_.progress();
    if (own_.is_dead() && !dead_) die();
    if (lost_ && !std::exchange(reported_, true)) listener_.failed(lost_->cause());
    if (lost_) end_held([&](const Held& one) { return one.peer == lost_peer_; }, *lost_);
    if (dead_) end_held([](const Held&) { return true; }, *dead_);
    release();
    const bool lazy = dice_.percent(chaos_.lazy);
    return (!lazy && Decorator::progress()) || lazy || !held_.empty() || own_.is_planned();
  }

  // The inner transport's descriptor does not report held operations and planned faults.
  bool arm(bool on) override {
    const bool waits = held_.empty() && !own_.is_planned() && own_.is_dead() == dead_.has_value();
    return (!on || waits) && Decorator::arm(on);
  }

 private:
  struct Held {
    bool sending;
    int peer;
    Tag tag;
    const std::byte* into;  // for a recv
    int rounds;             // progress() calls left to wait
    Done done;
    std::function<void(Done)> start;
  };

  static Status lost_on_purpose(int who, int reporter, const char* fault) {
    Cause why;
    why.code = Code::peer_lost;
    why.culprit = who;
    why.reporter = reporter;
    why.say("rank " + std::to_string(who) + " was lost on purpose (" + fault +
            " of TUTTI_CHAOS); it would have to be started again");
    return Status(why);
  }

  void hold(Held one) {
    own_.step();
    count_with(one.peer);
    const bool waits = own_.is_dead() || (lost_ && one.peer == lost_peer_);
    if (chaos_.delay == 0 && !waits) return one.start(std::move(one.done));
    one.rounds = dice_.below(chaos_.delay + 1);
    held_.push_back(std::move(one));
  }

  void count_with(int peer) {
    if (peer == rank()) return;
    if (peer == chaos_.lose.rank && ++with_lost_ == chaos_.lose.step) lose(peer, "lose");
    if (peer != chaos_.cut.other_end(rank()) || ++with_cut_ != chaos_.cut.step) return;
    if (describe(peer).starts_with("tcp"))
      system_faults::cut(chaos_.cut);
    else
      lose(peer, "cut");
  }

  void lose(int peer, const char* fault) {
    if (lost_) return;
    lost_peer_ = peer;
    lost_ = lost_on_purpose(peer, rank(), fault);
  }

  // A thread cannot be killed, so the rank reports itself, and does nothing more.
  void die() {
    dead_ = lost_on_purpose(rank(), rank(), "kill");
    listener_.failed(dead_->cause());
  }

  // Operations with equal tags keep their order.
  void release() {
    std::list<Held> free;
    for (auto one = held_.begin(); one != held_.end();) {
      const auto here = one++;
      const bool blocked = std::any_of(held_.begin(), here, [&](const Held& older) {
        return older.sending == here->sending && older.peer == here->peer && older.tag == here->tag;
      });
      if (--here->rounds < 0 && !blocked) free.splice(free.end(), held_, here);
    }
    for (Held& one : free) one.start(std::move(one.done));
  }

  template <class Predicate>
  void end_held(Predicate concerned, const Status& why) {
    std::list<Held> ended;
    for (auto one = held_.begin(); one != held_.end();)
      if (const auto here = one++; concerned(*here)) ended.splice(ended.end(), held_, here);
    for (Held& one : ended) one.done(why);
  }

  TransportListener& listener_;
  Chaos chaos_;
  system_faults::Ticket faults_of_calls_;
  OwnFaults own_;
  Dice dice_;
  std::list<Held> held_;
  std::optional<Status> lost_, dead_;  // the peer; this rank
  int lost_peer_ = -1;
  bool reported_ = false;
  std::uint64_t with_lost_ = 0, with_cut_ = 0;  // operations so far
};

}  // namespace

std::unique_ptr<Transport> make_chaos(std::unique_ptr<Transport> inner, TransportListener& listener,
                                      const Chaos& chaos) {
  return std::make_unique<ChaosTransport>(std::move(inner), listener, chaos);
}

}  // namespace tutti
