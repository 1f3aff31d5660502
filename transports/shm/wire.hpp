// ShmWire: a Wire over rings in a shared segment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/shm/handshake.hpp"
#include "transports/shm/host_state.hpp"
#include "transports/shm/segment.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::shm {

/// What two ranks can access of each other besides the rings: nothing, the arenas, or through the kernel all memory.
enum class Shared { nothing, arenas, own_memory };

/// The result of meet(): a mapped segment and a link to every rank that was reached.
struct Membership {
  int rank = 0;              ///< world rank
  int size = 1;              ///< of the world
  std::vector<int> members;  ///< world ranks by local index, ascending
  Segment segment;
  Descriptor doorbell;
  std::vector<Link> links;
  std::shared_ptr<Arena> arena;             ///< this rank's; null if not all arenas could be mapped
  std::vector<ArenaMap> arenas;             ///< by local index
  std::vector<std::vector<Shared>> shared;  ///< by the local indices of both ranks
  std::size_t cache_bytes = 0;              ///< as HostState::cache_bytes()
  bool moves_threads = true;                ///< as HostState::moves_threads()
};

/// Threads: as Wire; watch() and post() use only the links, the poison record and what reported_mutex_ guards.
class ShmWire final : public Wire {
 public:
  ShmWire(Membership membership, TransportListener& listener);
  ~ShmWire() override;

  std::size_t write(int to, std::span<const ConstBytes> pieces) override;
  ConstBytes peek(int from) override { return peer(from).in.peek(); }
  void consume(int from, std::size_t bytes) override;
  std::size_t read(int from, Bytes into) override;
  bool open(int to) const noexcept override { return by_rank_[static_cast<std::size_t>(to)] != nullptr; }
  void poll(std::vector<int>& ranks) override;
  Transport::Fds fds() const noexcept override { return {membership_.doorbell.fd(), watch_.fd()}; }
  bool arm(bool on) override;
  void watch() override;
  void farewell(int from) override { peer(from).ended.store(true, std::memory_order_release); }
  void drop(int rank) noexcept override;
  std::string describe(int to) const override;
  std::unique_ptr<Backend> make_backend(const Group& group) override;
  bool drive() override { return host_state_ && host_state_->drive(); }
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void ring(int to) noexcept override;
  bool post(const Cause& why) noexcept override;
  void close(Deadline until) noexcept override;

 private:
  struct Peer {
    int rank = -1;
    int local = -1;
    Link link;
    RingWriter out;
    RingReader in;
    RankLine* line = nullptr;
    bool full = false;               ///< the last write() did not take everything
    bool dropped = false;            ///< gone: its rings are not read any more
    bool judged = false;             ///< watch() has handled its end
    std::atomic<bool> ended{false};  ///< it sent a goodbye
  };

  void share();
  Peer& peer(int rank) noexcept { return *by_rank_[static_cast<std::size_t>(rank)]; }
  int local_index(int rank) const noexcept;
  void show(Peer& to) noexcept;
  bool nothing_to_do() noexcept;
  void report_published();
  void report_once(int slot, const Cause& why);
  void look_at(Peer& suspect, bool process_ended);
  void judge(const Peer& dead);
  void stop_watching(const Peer& of) noexcept;

  Membership membership_;
  TransportListener& listener_;
  const std::uint32_t generation_;
  PoisonTable poison_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> by_rank_;
  std::shared_ptr<HostState> host_state_;  ///< null if only the rings are shared
  Descriptor watch_;
  Sleep armed_ = Sleep::awake;
  bool closed_ = false;

  std::mutex reported_mutex_;
  std::vector<bool> reported_;                  ///< by poison slot: whether the listener was told
  std::atomic<std::uint32_t> seen_changes_{0};  ///< changes() of the poison record at the last check
};

}  // namespace tutti::shm
