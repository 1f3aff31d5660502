// Exchanges: sends and receives of device memory between two ranks, through pinned slots and any transport for host
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "tutti/accelerator.hpp"
#include "tutti/provider/backend.hpp"
#include "tutti/provider/transport.hpp"

namespace tutti::staged {

/// The exchanges of one communicator. A message is sent in slices, each a message of the transport with the same tag.
/// Each direction of a call has two slots, so calls do not wait for each other. Slots are reused, and freed only with
/// this object. No stream waits: the host waits for the event after which a call starts (Call::after).
class Exchanges final : public Engine {
 public:
  struct Half {
    Tag tag;
    std::uint64_t summary = 0;  ///< see Transport::send
  };

  Exchanges(const Group& group, Transport& wire, Accelerator& gpu, std::size_t slot_bytes);
  ~Exchanges() override;

  /// Starts a call of kind send on device memory. `send` and `recv` are the tags and signatures of its two halves. As
  /// Backend::start.
  void start(Call& call, const Half& send, const Half& recv);
  /// Ends all calls with `why`, after the transport has ended its messages.
  void cancel(const Status& why) noexcept;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }  // the transport's descriptors wake this engine too
  bool arm(bool) override { return true; }
  bool polled() const noexcept override;

 private:
  struct Slot {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
    Owned<Event> copied;
  };
  // One direction of an exchange. Each slice is copied and is sent as a message, or is received and then copied. The
  // counters are numbers of slices.
  struct Way {
    bool is_used = false;
    Half half;
    int peer = -1;  // world rank
    std::byte* memory = nullptr;
    std::size_t bytes = 0, slices = 0;
    std::size_t copied = 0, landed = 0;  // copies started and finished
    std::size_t given = 0, carried = 0;  // messages started and finished
    std::array<Slot, 2> slots;
    std::array<bool, 2> busy{}, arrived{};
    bool is_copying() const noexcept { return copied > landed; }
  };
  struct Exchange {
    Call* call = nullptr;
    int device = 0;
    bool is_ready = false;
    Way out, in;
    std::shared_ptr<void> scratch;  // a copy of the sent data if the receive overwrites it
    std::size_t scratch_bytes = 0;
    Owned<Event> saved;
    bool is_saving = false;
    bool broken = false;
  };
  using Key = std::tuple<bool, int, std::uint32_t>;  // true if it sends; peer; sequence number

  void prepare(Exchange& exchange, const Half& send, const Half& recv);
  void prepare(Exchange& exchange, Way& way, const Half& half, int peer, bool sends);
  void save(Exchange& exchange);
  bool advance(Exchange& exchange);
  bool may_give(const Way& way, bool sends);
  bool send(Exchange& exchange);
  bool receive(Exchange& exchange);
  void copy(Exchange& exchange, Way& way, bool to_host);
  bool look_for_end(Way& way);
  Done done_of(Exchange& exchange, Way& way, std::size_t slot, bool sends);
  void fail(Exchange& exchange, Code code, const std::string& what);
  bool is_over(const Exchange& exchange) const noexcept;
  bool has_settled(Exchange& exchange) noexcept;
  void end(std::unique_ptr<Exchange> exchange, const Status& status) noexcept;
  Slot take_slot(int device, std::size_t bytes);
  std::size_t slice_bytes(const Way& way, std::size_t number) const noexcept;
  const Stream& stream_of(int device, bool to_host);

  const Group group_;
  Transport& wire_;
  Accelerator& gpu_;
  const std::size_t slot_bytes_;
  const std::uint32_t generation_;
  bool left_some_ = false;  // memory was leaked to a device that may still use it
  std::vector<std::unique_ptr<Exchange>> calls_;
  std::map<Key, std::deque<const Way*>> order_;  // exchanges with messages to start, by key; the first one is next
  std::map<std::pair<int, bool>, Owned<Stream>> streams_;
  std::multimap<std::pair<int, std::size_t>, Slot> spare_slots_;                     // by device and bytes
  std::multimap<std::pair<int, std::size_t>, std::shared_ptr<void>> spare_scratch_;  // likewise
};

}  // namespace tutti::staged
