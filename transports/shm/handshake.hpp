// The handshake of a rank of a host with the one that leads, over a unix socket that lasts as long as the meeting: both
// prove that they know the job's secret, then exchange descriptors for wake-up and death notification, and the segment.
// When all are there, the leader tells each of them who the others are, with their descriptors: so that a host's ranks
// make one connection each, and not one with every other.
//
//     caller                               leader
//     hello     {from, to, nonce}     ->
//                                     <-   challenge {nonce, proof}
//     proof     {proof, card} + fds   ->
//                                     <-   welcome   {card} + the segment
//                                     <-   roster    {cards of up to 120 ranks} + their fds, several times
//
// A proof is an HMAC under the secret over both nonces, both ranks, the job and the message's type, so that it can be
// neither replayed nor reflected. The descriptors are a doorbell (eventfd), which wakes the rank, and one that becomes
// readable when the rank's process dies: a pidfd that it opened for itself, or where the kernel has none, the end of a
// pipe whose other end it keeps. The pidfd reports the death even while a forked child lives, needs no process number
// and works across PID namespaces. A rank has these two of every other, and no more.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"
#include "transports/core/half_open.hpp"
#include "transports/core/throttle.hpp"
#include "transports/shm/bell.hpp"
#include "tutti/clock.hpp"

namespace tutti::shm {

/// A known word in a process's memory: a peer that reads it with process_vm_readv has the right process.
struct Mark {
  std::uint64_t at = 0, value = 0;
};

/// What a rank tells of itself. Plain data, sent as it is.
struct Card {
  std::int32_t rank = -1;
  std::uint32_t spare = 0;
  std::int64_t pid = 0;         ///< in its own PID namespace
  std::uint64_t pid_space = 0;  ///< which one that is; 0: unknown
  Mark mark;
  BellName bell{};  ///< of the socket that wakes its background thread
};

/// A rank that is known to have the job's secret.
struct Link {
  Card card;
  Descriptor doorbell, death;
  Descriptor socket;  ///< during the meeting, between the leader and another rank
};

struct Message;

/// The identity of this rank and the job, used by both sides of a handshake. The descriptors are borrowed, -1 if there
/// is none.
struct Identity {
  Card card;
  std::string job, secret;
  int doorbell = -1, death = -1;
  int segment = -1;  ///< the leader's

  int rank() const noexcept { return card.rank; }
};

/// What a rank has after its call: a link to the leader, and the segment.
struct Called {
  Link leader;
  Descriptor segment;
};

/// Connects to the leader `to`, which listens at `address`, and again if it has closed the connection before it heard
/// this rank, as it does with the oldest of many callers. Throws Error{peer_lost} with the reason if it cannot be
/// reached or authenticated, Error{timeout} after `until`.
Called call(const Identity& self, int to, const std::string& address, Deadline until);

/// The leader tells `links` who all of them are, itself included.
void send_rosters(const Identity& self, std::vector<Link>& links);

/// Waits for the leader's roster; the result has every rank of it but this one. Throws Error{peer_lost} if the leader
/// ends first, Error{timeout} after `until`.
std::vector<Link> receive_roster(const Identity& self, const Link& leader, Deadline until);

/// Accepts connections. Callers that do not authenticate as one of the awaited ranks are refused and logged; a silent
/// or malformed caller never delays the others.
class Listener {
 public:
  /// Listens under a random abstract name, which disappears with this process. Throws Error{resource}.
  /// `any_user`: callers may belong to other users, which in user namespaces may be this one.
  Listener(const Identity& self, std::size_t ranks, bool any_user);

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
    HalfOpen::Number number = 0;
    bool finished = false;
  };

  void accept_callers(const std::vector<int>& awaited, std::vector<Link>& arrived);
  void hear(Caller& caller, const std::vector<int>& awaited, std::vector<Link>& arrived);
  void challenge(Caller& caller, const Message& hello, const std::vector<int>& awaited);
  void refuse(Caller& caller, const std::string& why);
  void refuse(HalfOpen::Number number, const std::string& why);
  void finish(Caller& caller);

  const Identity& self_;
  std::string address_;
  Descriptor socket_;
  const bool any_user_;
  std::list<Caller> callers_;  // oldest first
  HalfOpen half_open_;
  HalfOpen::Number calls_ = 0;
  Throttle throttle_;
};

}  // namespace tutti::shm
