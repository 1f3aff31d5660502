// The handshake of two ranks of a host, over a unix socket that stays open for the life of the job: both prove that
// they know the job's secret, then exchange descriptors for wake-up and death notification, and the segment.
//
//     caller                               listener
//     hello     {from, to, nonce}     ->
//                                     <-   challenge {nonce, proof}
//     proof     {proof, pid} + fds    ->
//                                     <-   welcome   {pid} + fds (+ the segment, from the lowest rank)
//
// A proof is an HMAC under the secret over both nonces, both ranks, the job and the message's type, so that it can be
// neither replayed nor reflected. The descriptors are a doorbell (eventfd), which wakes the rank; a pidfd that the rank
// opened for itself, where the kernel has pidfds; and the rank's arena (see arena.hpp). The pidfd reports the rank's
// death even while a forked child keeps the socket open, needs no process number and works across PID namespaces.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "tutti/clock.hpp"
#include "tutti/settings.hpp"

namespace tutti::shm {

/// The descriptors that a rank sends to each peer; borrowed, -1 if there is none.
struct Handout {
  int doorbell = -1;
  int process = -1;
  int segment = -1;
  int arena = -1;
};

/// A known word in a process's memory: a peer that reads it with process_vm_readv has the right process.
struct Mark {
  std::uint64_t at = 0, value = 0;
};

/// An authenticated peer.
struct Link {
  int rank = -1;
  std::int64_t pid = 0;    ///< in the peer's own PID namespace
  pid_t process_here = 0;  ///< in this rank's PID namespace; 0: not visible in it
  Mark mark;
  Descriptor socket, doorbell, process, segment, arena;
};

struct Message;

/// The identity of this rank and the job, used by both sides of a handshake.
struct Identity {
  int rank = 0;
  std::string job, secret;
  Handout handout;
  Mark mark;
};

/// Connects to rank `to`, which listens at `address`. Throws Error{peer_lost} with the reason if it cannot be reached
/// or authenticated, Error{timeout} after `until`.
Link call(const Identity& self, int to, const std::string& address, Deadline until);

/// Accepts connections. Callers that do not authenticate as one of the awaited ranks are refused and logged; a silent
/// or malformed caller never delays the others.
class Listener {
 public:
  /// Listens under a random abstract name, which disappears with this process. Throws Error{resource}.
  explicit Listener(const Identity& self);

  const std::string& address() const noexcept { return address_; }

  /// Serves for at most `slice`; appends the ranks of `awaited` that have authenticated. False: no caller sent
  /// anything.
  bool serve(const std::vector<int>& awaited, Seconds slice, std::vector<Link>& arrived);

 private:
  using Nonce = std::array<std::uint8_t, 16>;
  struct Caller {
    Descriptor socket;
    int rank = -1;  // as claimed in its hello; -1 before that
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
