// traced: reports an event when an operation starts, and one when it ends.
#include "transports/decorators/traced.hpp"

#include "transports/decorators/decorator.hpp"

namespace tutti {
namespace {

using Verb = TraceEvent::Verb;

class TracedTransport final : public Decorator {
 public:
  TracedTransport(std::unique_ptr<Transport> inner, std::function<void(const TraceEvent&)> tell)
      : Decorator(std::move(inner)), tell_(std::move(tell)) {}

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    Decorator::send(to, tag, call, from, started({Verb::send, false, false, to, tag, from.size()}, std::move(done)));
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    Decorator::recv(from, tag, call, into,
                    started({Verb::recv, false, false, from, tag, into.size()}, std::move(done)));
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    Decorator::recv_reduce(from, tag, call, into, with, fold,
                           started({Verb::recv_reduce, false, false, from, tag, into.size()}, std::move(done)));
  }
  void control(int to, ConstBytes message) override {
    tell_({Verb::control, false, false, to, {}, message.size()});
    Decorator::control(to, message);
  }

 private:
  Done started(TraceEvent event, Done done) {
    tell_(event);
    event.ended = true;
    return [this, event, done = std::move(done)](const Status& status) mutable {
      event.failed = !status.ok();
      tell_(event);
      done(status);
    };
  }
  std::function<void(const TraceEvent&)> tell_;
};

}  // namespace

std::unique_ptr<Transport> make_traced(std::unique_ptr<Transport> inner, std::function<void(const TraceEvent&)> tell) {
  return std::make_unique<TracedTransport>(std::move(inner), std::move(tell));
}

}  // namespace tutti
