// ShmWire: a Wire over rings in a shared segment.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transports/shm/bell.hpp"
#include "transports/shm/host_state.hpp"
#include "transports/shm/segment.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::shm {

/// The memory of each other, besides rings, that two ranks can access: none, the arenas, or all, through the kernel.
enum class Shared { nothing, arenas, own_memory };

/// How many ranks a rank watches: the next ones after it, by local index, that have neither died nor left.
inline constexpr int most_watched = 8;

/// Another rank of the host.
struct Peer {
  int rank = -1;
  int local = -1;
  std::int64_t pid = 0;  ///< in its own PID namespace
  pid_t process = 0;     ///< in this rank's PID namespace; 0: not visible there
  BellName bell{};
  std::uint64_t start = 0;     ///< when the process began (process_start); 0: unknown
  Descriptor doorbell, death;  ///< see handshake.hpp; `death` is empty if it can be opened by `process` and `start`
};

/// The result of meet(): a mapped segment, and the ranks that were reached.
struct Membership {
  int rank = 0;              ///< world rank
  int size = 1;              ///< of the world
  std::vector<int> members;  ///< world ranks by local index, ascending
  Segment segment;
  Descriptor doorbell;
  Bell bell;
  Descriptor life;  ///< without pidfds: the pipe end whose closing shows others this process's death
  std::vector<Peer> peers;
  std::shared_ptr<Arena> arena;  ///< this rank's; null if not all arenas could be mapped
  std::vector<Shared> shared;    ///< by local index: what that rank can access of all others
  std::size_t cache_bytes = 0;   ///< as HostState::cache_bytes()
  bool moves_threads = true;     ///< as HostState::moves_threads()
};

/// A rank watches the processes of the most_watched ranks that follow it by local index, and further ranks as these die
/// or leave. So several ranks watch each process, and however many die, the next living rank before them notices.
///
/// A ring is opened when a rank first writes to another. So a rank polls only peers that it exchanges messages with,
/// and has memory only for these. Threads: as Wire; watch() and post() use only the peers, the poison record and what
/// reported_mutex_ guards.
class ShmWire final : public Wire {
 public:
  ShmWire(Membership membership, TransportListener& listener);
  ~ShmWire() override;

  std::size_t write(int to, std::span<const ConstBytes> pieces) override;
  ConstBytes peek(int from) override;
  void consume(int from, std::size_t bytes) override;
  std::size_t read(int from, Bytes into) override;
  bool open(int to) const noexcept override;
  void expect(int from) override;
  void poll(std::vector<int>& ranks) override;
  Transport::Fds fds() const noexcept override { return {membership_.doorbell.fd(), watch_.fd()}; }
  bool arm(bool on) override;
  void watch() override;
  void farewell(int from) override { end_of(from).ended.store(true, std::memory_order_release); }
  void drop(int rank) noexcept override;
  std::string describe(int to) const override;
  std::unique_ptr<Backend> make_backend(const Group& group) override;
  bool drive() override { return host_state_ && host_state_->drive(); }
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void ring(int to) noexcept override;
  bool post(const Cause& why) noexcept override;
  void close(Deadline until) noexcept override;

 private:
  /// This rank's side of its connection to a peer.
  struct End {
    Peer peer;
    RingWriter out;
    RingReader in;
    RankLine* line = nullptr;
    std::size_t said = 0;            ///< bytes read of last words, a goodbye that this rank makes up
    bool writes = false;             ///< the ring to the peer is open
    bool reads = false;              ///< the ring from the peer is open
    bool asks = false;               ///< this rank waits, or has waited, for the ring from the peer
    bool silent = false;             ///< the peer has left and never wrote, so last words replace its goodbye
    bool full = false;               ///< the last write() did not take everything
    bool dropped = false;            ///< the peer is gone: its rings are not used any more
    bool watched = false;            ///< watch() notices the end of the peer's process
    bool judged = false;             ///< watch() has handled that end
    std::atomic<bool> ended{false};  ///< the peer sent a goodbye or has left
  };

  void share();
  End& end_of(int rank) noexcept { return *by_rank_[static_cast<std::size_t>(rank)]; }
  int local_index(int rank) const noexcept;
  bool open_ring(End& to) noexcept;
  void open_new_rings() noexcept;
  void hear_leavers() noexcept;
  void hear_last_words(End& of) noexcept;
  void no_ring(const Error& why) noexcept;
  void show(End& to) noexcept;
  bool nothing_to_do() noexcept;
  void report_published();
  void report_once(int slot, const Cause& why);
  void watch_followers();
  static bool open_death(Peer& peer);
  void look_at(End& suspect);
  void judge(const End& dead);
  void wake(const End& target) noexcept;
  void ring_all(const End* but) noexcept;

  Membership membership_;
  TransportListener& listener_;
  const std::uint32_t generation_;
  PoisonTable poison_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<End*> by_rank_, by_local_;
  std::vector<End*> readers_,
      writers_;  ///< readers_: an open ring from the peer, or its last words; writers_: an open ring to the peer
  std::shared_ptr<HostState> host_state_;  ///< null if only the rings are shared
  Descriptor watch_;
  RankLine* own_ = nullptr;
  std::uint32_t seen_opened_ = 0, seen_leavers_ = 0;  ///< opened and leavers() when they were last handled
  Sleep armed_ = Sleep::awake;
  bool is_fenced_ = false;  // a heavy barrier has been made since the sleep flag was set
  bool closed_ = false;
  bool opens_all_ = false;  ///< the poison record is full, so aborts and goodbyes open rings too
  bool ring_failed_ = false;

  std::mutex reported_mutex_;
  std::vector<bool> reported_;                  ///< by slot of the poison record: true if the listener was told
  std::atomic<std::uint32_t> seen_changes_{0};  ///< changes() of the poison record at the last check
};

}  // namespace tutti::shm
