// How two ranks of a host meet: over a unix socket that stays open for life, both prove that they know the
// job's secret, and then hand each other what wakes and watches them, and the segment.
//
//     caller                               listener
//     hello     {from, to, nonce}     ->
//                                     <-   challenge {nonce, proof}
//     proof     {proof, pid} + fds    ->
//                                     <-   welcome   {pid} + fds (+ the segment, from the lowest rank)
//
// A proof is an HMAC under the secret over both nonces, both ranks, the job and the message's type, so that
// it can be neither replayed nor reflected. The descriptors are a doorbell (eventfd), which wakes the
// rank, and where the kernel has it a pidfd that the rank opened for itself: it tells of the rank's death even
// while a forked child keeps the socket open, needs no process number and sees through PID namespaces; and the rank's
// arena, see arena.hpp.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "transports/core/clock.hpp"
#include "transports/core/descriptor.hpp"
#include "transports/core/settings.hpp"

namespace tutti::shm {

/// What a rank hands to each of its peers; borrowed descriptors, -1 where there is none.
struct Handout {
  int doorbell = -1;
  int process = -1;
  int segment = -1;
  int arena = -1;
};

/// A word of a process: who reads it there by the kernel has found the right one.
struct Mark {
  std::uint64_t at = 0, value = 0;
};

/// A peer that proved itself.
struct Link {
  int rank = -1;
  std::int64_t pid = 0;    ///< in the peer's own PID namespace
  pid_t process_here = 0;  ///< in this rank's; 0: it is not seen from there
  Mark mark;
  Descriptor socket, doorbell, process, segment, arena;
};

struct Message;

/// What both sides of a handshake know.
struct Identity {
  int rank = 0;
  std::string job, secret;
  Handout handout;
  Mark mark;
};

/// Calls rank `to`, which listens at `address`. Throws Error{peer_lost} with the reason when it cannot be
/// reached or does not prove itself, Error{timeout} after `until`.
Link call(const Identity& self, int to, const std::string& address, Deadline until);

/// Answers callers. Whoever does not prove to be one of the awaited ranks is refused and logged; a silent or
/// garbled caller never delays the others.
class Listener {
 public:
  /// Under an abstract name that nobody can guess; gone with this process. Throws Error{resource}.
  explicit Listener(const Identity& self);

  const std::string& address() const noexcept { return address_; }

  /// Serves for at most `slice`; appends who has proved to be one of `awaited`. False: nobody said anything.
  bool serve(const std::vector<int>& awaited, Seconds slice, std::vector<Link>& arrived);

 private:
  using Nonce = std::array<std::uint8_t, 16>;
  struct Caller {
    Descriptor socket;
    int rank = -1;  // as claimed in its hello; -1 before
    Nonce caller_nonce{}, own_nonce{};
    bool finished = false;
  };

  void accept_callers();
  void hear(Caller& caller, const std::vector<int>& awaited, std::vector<Link>& arrived);
  void challenge(Caller& caller, const Message& hello, const std::vector<int>& awaited);
  void refuse(Caller& caller, const std::string& why) const;

  const Identity& self_;
  std::string address_;
  Descriptor socket_;
  std::list<Caller> callers_;
};

}  // namespace tutti::shm
