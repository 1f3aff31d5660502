// Chaos: faults on purpose, from a seed. The setting `chaos`, its dice, and the faults of system calls.
//
// The decorator in transports/decorators/chaos.hpp plays the faults of messages and of ranks. The faults of system
// calls are played here, because they happen inside the transports.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

/// A fault of one rank: at its `step`-th operation (1 is the first). Rank -1: never.
struct RankFault {
  int rank = -1;
  std::uint64_t step = 0;
  bool operator==(const RankFault&) const = default;
};

/// A fault of the link between two ranks: at their `step`-th operation with each other. Rank -1: never.
struct LinkFault {
  int a = -1, b = -1;
  std::uint64_t step = 0;
  /// The other end, seen from `rank`; -1 if the link is not this rank's.
  int other_end(int rank) const noexcept { return rank == a ? b : rank == b ? a : -1; }
  bool operator==(const LinkFault&) const = default;
};

/// The faults of a job.
struct Chaos {
  std::uint64_t seed = 1;
  int delay = 0;                 ///< operations reach the transport up to this many progress() calls late
  int lazy = 0;                  ///< percentage of progress() calls that do nothing
  int short_part = 0;            ///< percentage of reads and writes of sockets that move only a part
  int eintr = 0;                 ///< percentage of system calls that end with EINTR first
  int memory = 0;                ///< percentage of reservations of shared memory that are refused
  std::uint64_t memory_nth = 0;  ///< the only reservation that is refused, counted from 1; 0: `memory` decides
  RankFault kill, stop, lose;
  LinkFault cut;
  bool backend = true;  ///< the transport's own collectives are used
  /// Without the faults of ranks and links. Those are of the world that a job begins with: in the world of a job that
  /// has grown, other processes have these numbers.
  Chaos in_later_world() const;
  bool operator==(const Chaos&) const = default;
};

/// "seed=7,delay=8,lazy=30,short=20,eintr=10,memory=5,kill=2@17,stop=1@9,lose=1@9,cut=0-3@12,backend=off", each part
/// optional and in any order. "memory=@3" refuses the third reservation. Throws Error{invalid}.
Chaos parse_chaos(std::string_view text);

/// The text form that parse_chaos() accepts.
std::string to_string(const Chaos& chaos);

/// Random numbers that depend on the seed and on `stream` alone (splitmix64).
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t stream) noexcept : state_(mixed(seed) ^ mixed(~stream)) {}
  std::uint64_t next() noexcept { return mixed(state_ += step); }
  /// A number from 0 to n - 1.
  int below(int n) noexcept { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool percent(int chance) noexcept { return chance > 0 && below(100) < chance; }

  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  static constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

/// The faults of this process's system calls. All ranks of a process share them, because a system call belongs to the
/// process. Any thread.
namespace system_faults {

/// True while a ticket lives. Without chaos, a system call costs one look at it.
inline std::atomic<bool> on{false};
inline bool is_on() noexcept { return on.load(std::memory_order_relaxed); }

/// Plays the faults while it lives. A second ticket in the process shares the faults of the first.
class Ticket {
 public:
  Ticket(const Chaos& chaos, int rank) noexcept;
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
};

/// True if the next system call shall end with EINTR.
bool interrupts() noexcept;
/// True if the next reservation of memory shall be refused.
bool refuses_memory() noexcept;
/// Shortens the vector of a message to a part of its bytes, but at least one, or leaves it as it is.
void shorten(msghdr& message) noexcept;

/// Ends the connection of the link's two ranks, which the transport does at its next poll.
void cut(const LinkFault& link) noexcept;
/// The peer whose connection with `rank` shall end; -1: none.
int peer_cut_from(int rank) noexcept;

/// Makes a system call whose result is negative on failure.
template <class Call>
auto interruptible(const Call& call) -> decltype(call()) {
  if (is_on() && interrupts()) [[unlikely]] {
    errno = EINTR;
    return -1;
  }
  return call();
}

}  // namespace system_faults
}  // namespace tutti
