// shaped: the sender holds a message until it has left the link and the latency has passed; the receiver holds it
// until its link has received it.
#include "transports/decorators/shaped.hpp"

#include <sys/timerfd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "transports/decorators/any_of.hpp"
#include "transports/decorators/decorator.hpp"
#include "transports/decorators/paced_link.hpp"
#include "tutti/clock.hpp"

namespace tutti {
namespace {

class ShapedTransport final : public Decorator {
 public:
  ShapedTransport(std::unique_ptr<Transport> transport, LinkShape shape, std::function<LinkTime()> now)
      : Decorator(std::move(transport)),
        shape_(shape),
        now_(std::move(now)),
        out_(shape.bits_per_second),
        in_(shape.bits_per_second),
        timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    if (!timer_)
      throw Error(Code::resource, "timerfd_create failed: too many open files; raise the limit with `ulimit -n`");
    sleep_.add(inner().fds().sleep);
    sleep_.add(timer_.fd());
  }

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    if (to == rank()) return Decorator::send(to, tag, call, from, std::move(done));
    const std::uint64_t id = next_id_++;
    held_.emplace(id, Held{to, tag, call, from, std::move(done)});
    out_.push(to, id, from.size(), now_());
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    Decorator::recv(from, tag, call, into, taken_in(from, tag, into.size(), std::move(done)));
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    Decorator::recv_reduce(from, tag, call, into, with, fold, taken_in(from, tag, into.size(), std::move(done)));
  }

  void cancel(std::uint64_t group, const Status& why) noexcept override {
    Decorator::cancel(group, why);
    const auto concerned = [group](const Tag& tag) { return group == 0 || tag.group == group; };
    out_.erase([&](std::uint64_t id) { return concerned(held_.at(id).tag); }, now_());
    std::deque<Done> ended;
    std::erase_if(under_way_, [&](const OutgoingLink::Departure& one) { return concerned(held_.at(one.id).tag); });
    std::erase_if(held_, [&](auto& entry) {
      if (!concerned(entry.second.tag)) return false;
      ended.push_back(std::move(entry.second.done));
      return true;
    });
    std::erase_if(coming_, [&](Coming& one) {
      if (!concerned(one.tag)) return false;
      ended.push_back(std::move(one.done));
      return true;
    });
    for (const Done& done : ended) done(why);
  }

  bool progress() override {
    const bool moved = Decorator::progress();
    if (held_.empty() && coming_.empty()) return moved;
    return release(now_()) || moved;
  }

  Fds fds() const noexcept override { return {sleep_.fd(), Decorator::fds().watch}; }

  bool arm(bool on) override {
    if (!on) return Decorator::arm(false);
    const LinkTime due = next();
    if (due != never_ && due <= now_()) return false;
    set_timer(due);
    return Decorator::arm(true);
  }

  std::string describe(int to) const override {
    return to == rank() ? Decorator::describe(to) : Decorator::describe(to) + " as " + to_string(shape_);
  }

 private:
  struct Held {
    int to;
    Tag tag;
    std::uint64_t call;
    ConstBytes from;
    Done done;
  };
  struct Coming {
    LinkTime due;
    Tag tag;
    Done done;
  };
  static constexpr LinkTime never_ = LinkTime::max();

  Done taken_in(int from, const Tag& tag, std::size_t bytes, Done done) {
    if (from == rank()) return done;
    return [this, tag, bytes, done = std::move(done)](const Status& status) mutable {
      if (!status.ok()) return done(status);
      const LinkTime now = now_(), due = in_.take(bytes, now);
      if (due <= now && coming_.empty()) return done(status);
      coming_.push_back({due, tag, std::move(done)});
    };
  }

  // Both queues are ordered by time.
  bool release(LinkTime now) {
    bool moved = false;
    for (const OutgoingLink::Departure& one : out_.pop(now)) under_way_.push_back(one);
    for (; !under_way_.empty() && under_way_.front().when + shape_.latency <= now; moved = true) {
      auto message = held_.extract(under_way_.front().id);
      under_way_.pop_front();
      Held& one = message.mapped();
      inner().send(one.to, one.tag, one.call, one.from, std::move(one.done));
    }
    for (; !coming_.empty() && coming_.front().due <= now; moved = true) {
      const Done done = std::move(coming_.front().done);
      coming_.pop_front();
      done({});
    }
    return moved;
  }

  LinkTime next() const {
    LinkTime due = never_;
    if (!under_way_.empty())
      due = under_way_.front().when + shape_.latency;
    else if (const auto leaves = out_.next())
      due = *leaves + shape_.latency;
    if (!coming_.empty()) due = std::min(due, coming_.front().due);
    return due;
  }

  void set_timer(LinkTime due) {
    if (due == timer_at_) return;
    timer_at_ = due;
    itimerspec when{};  // zero disarms the timer
    if (due != never_) {
      const auto seconds = std::chrono::floor<std::chrono::seconds>(due);
      when.it_value = {seconds.count(), (due - seconds).count()};
    }
    timerfd_settime(timer_.fd(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  const LinkShape shape_;
  const std::function<LinkTime()> now_;
  OutgoingLink out_;
  IncomingLink in_;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Held> held_;             // sends not passed to the inner transport yet
  std::deque<OutgoingLink::Departure> under_way_;  // those of held_ that have left the link
  std::deque<Coming> coming_;                      // received by the inner transport, but not yet by the link
  LinkTime timer_at_ = never_;
  Descriptor timer_;
  AnyOf sleep_;
};

}  // namespace

std::unique_ptr<Transport> make_shaped(std::unique_ptr<Transport> inner, LinkShape shape,
                                       std::function<LinkTime()> now) {
  if (!now) now = [] { return std::chrono::duration_cast<LinkTime>(Clock::now().time_since_epoch()); };
  return std::make_unique<ShapedTransport>(std::move(inner), shape, std::move(now));
}

}  // namespace tutti
