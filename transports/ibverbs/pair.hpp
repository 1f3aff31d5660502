// Pair: the reliable connection between this rank and one peer, and its slots, which are buffers for messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transports/ibverbs/adapter.hpp"
#include "transports/ibverbs/endpoint.hpp"
#include "transports/ibverbs/hello.hpp"
#include "transports/ibverbs/slots.hpp"
#include "tutti/buffer.hpp"
#include "tutti/clock.hpp"

namespace tutti::ibverbs {

class Pair {
 public:
  /// Allocates the queue pair and slots, and posts the receives. Throws Error{resource}.
  Pair(Adapter& adapter, int peer, const Endpoint& own, const Endpoint& its);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void introduce(Hello& mine) const noexcept;
  /// Connects to `its`. The device gives up after about `silence` without an acknowledgement. Returns 0 or an errno.
  int connect(const Hello& its, Seconds silence) noexcept;
  bool connected() const noexcept { return connected_; }

  /// Sends as many bytes of `pieces` as fit the free slots and credits; returns the number.
  std::size_t send(std::span<const ConstBytes> pieces) noexcept;
  void sent(int messages) noexcept;
  /// Sends an empty last message whose completion implies that all earlier messages have arrived. Does nothing if the
  /// last message already requests a completion.
  void finish() noexcept;
  bool idle() const noexcept { return out_ == 0; }  ///< all messages have arrived

  /// Handles a received message; false if it violates the protocol.
  bool received(std::uint8_t slot, std::size_t bytes, std::uint32_t credit) noexcept;
  ConstBytes front() const noexcept;
  void consume(std::size_t bytes) noexcept;
  bool unread() const noexcept { return waiting_ > 0; }

  bool broken() const noexcept { return broken_; }  ///< the device refused a request; the adapter knows why
  std::string text() const;

 private:
  struct Arrival {
    std::uint8_t slot;
    std::uint32_t bytes;
  };
  std::byte* in_slot(int slot) const noexcept { return memory_ + static_cast<std::size_t>(slot) * slot_bytes; }
  std::byte* out_slot(int slot) const noexcept { return in_slot(in_slots + slot); }
  void offer(std::span<const std::uint8_t> slots) noexcept;
  void refused(int error, const char* what) noexcept;
  void prepare(ConstBytes bytes, std::uint32_t credit, bool told) noexcept;
  void post() noexcept;
  void return_credit() noexcept;
  void set_up();

  Adapter& adapter_;
  const int peer_;
  const Endpoint own_, its_;
  std::byte* memory_ = nullptr;
  Region region_;
  QueuePair pair_;
  std::size_t inline_bytes_ = 0;
  std::uint32_t first_packet_;
  SlotCredit credit_;
  int next_out_ = 0;  // slot for the next message with data
  int out_ = 0;       // messages without a completion yet
  int untold_ = 0;    // messages since the last one that requests a completion
  std::array<ibv_send_wr, data_slots> requests_{};
  std::array<ibv_sge, data_slots> parts_{};
  std::size_t prepared_ = 0;                  // sends to post together
  std::array<Arrival, in_slots> arrivals_{};  // ring of messages received and not read
  int first_ = 0, waiting_ = 0;
  std::size_t read_ = 0;                              // bytes already read from the first message
  std::array<std::uint8_t, offered_at_once> free_{};  // slots read, to be posted together
  std::size_t freed_ = 0;
  bool connected_ = false, broken_ = false;
};

}  // namespace tutti::ibverbs
