// recorded: a message takes one record, like a call.
#include "transports/decorators/recorded.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "transports/decorators/decorator.hpp"

namespace tutti {
namespace {

using What = Record::What;

class RecordedTransport final : public Decorator {
 public:
  RecordedTransport(std::unique_ptr<Transport> inner, Recorder& recorder)
      : Decorator(std::move(inner)), recorder_(recorder) {}

  std::unique_ptr<Backend> make_backend(const Group& group) override { return inner().make_backend(group); }

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override {
    Record* const record = begin(What::sent, to, tag, call, from.size());
    Decorator::send(to, tag, call, from, [record, done = std::move(done)](const Status& status) {
      end(record, status);
      done(status);
    });
  }
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    Decorator::recv(from, tag, call, into, received({from, tag, into.data()}, call, into.size(), std::move(done)));
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    Decorator::recv_reduce(from, tag, call, into, with, fold,
                           received({from, tag, into.data()}, call, into.size(), std::move(done)));
  }
  void control(int to, ConstBytes message) override {
    end(begin(What::control, to, {}, 0, message.size()), {});
    Decorator::control(to, message);
  }
  bool retract(int from, const Tag& tag, const std::byte* into) override {
    if (!Decorator::retract(from, tag, into)) return false;
    const auto found = std::ranges::find(receives_, Receive{from, tag, into});
    if (found == receives_.end()) return true;
    Recorder::ended(*found->record, false);
    receives_.erase(found);
    return true;
  }

 private:
  struct Receive {
    int from;
    Tag tag;
    const std::byte* into;
    Record* record = nullptr;
    bool operator==(const Receive& other) const { return from == other.from && tag == other.tag && into == other.into; }
  };

  Record* begin(What what, int peer, const Tag& tag, std::uint64_t call, std::size_t bytes) {
    RecordEntry entry;
    entry.what = what;
    entry.group = tag.group;
    entry.call = call;
    entry.bytes = bytes;
    entry.sequence = tag.sequence;
    entry.peer = peer;
    return recorder_.begin(entry);
  }
  static void end(Record* record, const Status& status) {
    if (record != nullptr) Recorder::ended(*record, status.ok());
  }

  // Remembers receives, since one that is retracted never calls `done`.
  Done received(Receive receive, std::uint64_t call, std::size_t bytes, Done done) {
    receive.record = begin(What::received, receive.from, receive.tag, call, bytes);
    if (receive.record == nullptr) return done;
    receives_.push_back(receive);
    return [this, record = receive.record, done = std::move(done)](const Status& status) {
      std::erase_if(receives_, [record](const Receive& one) { return one.record == record; });
      end(record, status);
      done(status);
    };
  }

  Recorder& recorder_;
  std::vector<Receive> receives_;  // posted, not ended
};

}  // namespace

std::unique_ptr<Transport> make_recorded(std::unique_ptr<Transport> inner, Recorder& recorder) {
  return std::make_unique<RecordedTransport>(std::move(inner), recorder);
}

}  // namespace tutti
