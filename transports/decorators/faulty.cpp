// faulty: operations are held for a random number of progress() calls.
#include "transports/decorators/faulty.hpp"

#include <algorithm>
#include <list>
#include <optional>
#include <random>
#include <string>

#include "transports/decorators/decorator.hpp"

namespace tutti {
namespace {

class FaultyTransport final : public Decorator {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, TransportListener& listener, Faults faults)
      : Decorator(std::move(inner)), listener_(listener), faults_(faults), random_(faults.seed) {}

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

  bool progress() override {
    if (lost_ && !std::exchange(reported_, true)) listener_.failed(lost_->cause());
    if (lost_) end_held([&](const Held& one) { return one.peer == faults_.lost_peer; }, *lost_);
    release();
    const bool lazy = pick(100) < faults_.laziness;
    return (!lazy && Decorator::progress()) || lazy || !held_.empty();
  }

  // The inner transport's descriptor does not report held operations.
  bool arm(bool on) override { return (!on || held_.empty()) && Decorator::arm(on); }

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

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void hold(Held one) {
    one.rounds = pick(faults_.delay + 1);
    if (one.peer == faults_.lost_peer && ++with_lost_peer_ > faults_.lost_after && !lost_) {
      Cause why;
      why.code = Code::peer_lost;
      why.culprit = one.peer;
      why.reporter = rank();
      why.say("rank " + std::to_string(one.peer) + " was lost on purpose; it would have to be started again");
      lost_ = Status(why);
    }
    held_.push_back(std::move(one));
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
  Faults faults_;
  std::mt19937 random_;
  std::list<Held> held_;
  std::optional<Status> lost_;
  bool reported_ = false;
  int with_lost_peer_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, TransportListener& listener, Faults faults) {
  return std::make_unique<FaultyTransport>(std::move(inner), listener, faults);
}

}  // namespace tutti
