// The StreamTransport class: operations, frame handling and matching.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "transports/core/lazy_array.hpp"
#include "transports/stream/reader.hpp"
#include "transports/stream/writer.hpp"

namespace tutti::stream {

inline constexpr std::size_t step_budget = 256 << 10;  // approximate bytes moved by one progress()
inline constexpr std::size_t post_budget = 32 << 10;   // approximate bytes that one send() or recv() may write itself
inline constexpr std::size_t last_budget = 8 << 20;    // bytes still read from a rank that has died
inline constexpr int last_flushes = 16;                // attempts to tell a rank that it counts as lost
inline constexpr Seconds farewell_time{1.0};           // time to send the last frames when leaving

/// Matches sends with recvs; see transport.cpp.
class StreamTransport final : public Transport, private FrameHandler {
 public:
  StreamTransport(std::string name, int rank, int size, std::unique_ptr<Wire> wire, TransportListener& listener)
      : Transport(std::move(name), rank, size),
        wire_(std::move(wire)),
        placing_(wire_->placing()),
        listener_(listener),
        ledger_(size, wire_->limits()),
        writer_(*wire_, ledger_, size),
        reader_(*wire_, *this, size),
        peers_(static_cast<std::size_t>(size)) {}
  ~StreamTransport() override { leave(); }

  void send(int to, const Tag& tag, std::uint64_t call, ConstBytes from, Done done) override;
  void recv(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done) override {
    post(from, tag, call, into, std::move(done), nullptr, {});
  }
  void recv_reduce(int from, const Tag& tag, std::uint64_t call, Bytes into, const std::byte* with, const Fold& fold,
                   Done done) override {
    post(from, tag, call, into, std::move(done), with, fold);
  }
  std::optional<Unmatched> arrived(int from, const Tag& tag) override {
    const Arrival* const found = waiting_.oldest(from, tag);
    if (!found) return std::nullopt;
    return Unmatched{found->key.peer, static_cast<std::size_t>(found->frame.bytes), found->frame.call};
  }
  bool retract(int from, const Tag& tag, const std::byte* into) override;
  void control(int to, ConstBytes message) override;
  void spread(const Cause& why) noexcept override;
  void cancel(std::uint64_t group, const Status& why) noexcept override;
  bool progress() override;

  Fds fds() const noexcept override { return wire_->fds(); }
  bool arm(bool on) override {
    if (!on) return wire_->arm(false);
    if (!ledger_.quiet() || !locals_.empty() || !reader_.quiet() || !writer_.quiet()) return false;
    return wire_->arm(true);
  }
  bool polled() const noexcept override { return wire_->polled(); }
  std::string describe(int to) const override {
    const std::string how = to == rank() ? std::string("itself") : wire_->describe(to);
    return how.empty() ? name() : name() + " " + how;
  }
  void watch() override { wire_->watch(); }
  std::unique_ptr<Backend> make_backend(const Group& group) override { return wire_->make_backend(group); }
  std::shared_ptr<void> allocate(std::size_t bytes) override { return wire_->allocate(bytes); }
  std::shared_ptr<void> adopt(std::shared_ptr<void> memory, std::size_t bytes) override {
    return wire_->adopt(std::move(memory), bytes);
  }

 private:
  struct Peer {
    std::optional<Status> gone;  // why no operation with the peer can succeed any more; nullopt: they may
    std::uint32_t goodbyes = 0;  // number of streams that have ended
    std::size_t told = 0;        // number of causes in spread_ that the peer has been told
  };
  struct Local {  // a large message to this rank itself, being copied
    Send* send;
    Landing into;
  };
  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Status* loss_of(int rank) const noexcept {  // null: the rank is not lost
    const Peer* const peer = peers_.find(static_cast<std::size_t>(rank));
    return peer != nullptr && peer->gone ? &*peer->gone : nullptr;
  }
  bool reachable(int peer) const { return peer != rank() && loss_of(peer) == nullptr && wire_->open(peer); }

  void post(int from, const Tag& tag, std::uint64_t call, Bytes into, Done done, const std::byte* with,
            const Fold& fold);
  const Status* refusal(int peer, std::uint64_t group) const;
  void send_local(Send& send);
  void meet(Arrival& arrival, Recv& recv);
  void deliver(Arrival& arrival, Recv& recv);
  bool agree(int from, const Frame& frame, Recv& recv, Send* local = nullptr);
  void grant(const Frame& frame, Recv& recv);
  void give_back(int to, std::size_t bytes);
  bool copy_locals(std::size_t budget);
  bool take_placed();

  Sink begin(int from, const Frame& frame) override;
  void end(int from, const Frame& frame, const Sink& sink, ConstBytes small) override;
  void malformed(int from, const char* what) override;
  Sink begin_message(int from, const Frame& frame);
  Sink begin_data(int from, const Frame& frame);
  void go_ahead(int from, const Frame& frame, ConstBytes place);
  void rejected(int from, const Frame& frame, ConstBytes cause);

  void tell(int peer, const Cause& why);
  void tell_all(int peer);
  void tell_newcomers();
  void drop(int peer);
  void lose(int peer, const Status& why);
  void withdraw(Send& send, const Status& why);
  void withdraw(Recv& recv, const Status& why);
  void leave() noexcept;

  std::unique_ptr<Wire> wire_;
  Placing* const placing_;  // owned by the wire; null if it has none
  TransportListener& listener_;
  Ledger ledger_;
  MatchTable<Recv> posted_;  // recvs without a matching message
  Waiting waiting_;          // messages without a matching recv
  StreamWriter writer_;
  StreamReader reader_;
  LazyArray<Peer> peers_;
  Fifo<Local> locals_;
  std::vector<Placing::Ended> placed_;
  std::unordered_map<std::uint64_t, Status> cancelled_;  // cancelled groups, with the reason
  std::vector<Cause> spread_;                            // the failures so far, if the wire posts none
};

}  // namespace tutti::stream
