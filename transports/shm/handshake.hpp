// The handshake between a rank and the leader of its host's ranks, over a unix socket that lasts until all ranks have
// connected. Both prove that they know the job's secret. Then they exchange descriptors for wake-up and death
// notification, and the leader sends the segment. Once all ranks have connected, the leader sends each of them a
// roster: the Cards and descriptors of all ranks. So a rank makes one connection, and not one to every other rank.
//
//     caller                               leader
//     hello     {from, to, nonce}     ->
//                                     <-   challenge {nonce, proof}
//     proof     {proof, card} + fds   ->
//                                     <-   welcome   {card} + the segment
//                                     <-   roster    {cards of up to 120 ranks} + their fds, several times
//
// A proof is an HMAC under the secret over both nonces, both ranks, the job and the message's type, so that it can be
// neither replayed nor reflected. Each rank sends two descriptors. The doorbell (an eventfd) wakes the rank. The death
// descriptor becomes readable when the rank's process dies: it is a pidfd that the rank opened for itself, or if the
// kernel has no pidfd, the read end of a pipe whose write end the rank keeps. A pidfd reports the death even while a
// forked child lives, needs no process number and works across PID namespaces. A rank holds at most these two
// descriptors of each other rank.
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

/// A word at a known address in a process. A peer that reads `value` there by process_vm_readv has the right process.
struct Mark {
  std::uint64_t at = 0, value = 0;
};

/// What a rank tells the others about itself. Plain data, sent byte for byte.
struct Card {
  std::int32_t rank = -1;
  std::uint32_t spare = 0;
  std::int64_t pid = 0;         ///< in its own PID namespace
  std::uint64_t pid_space = 0;  ///< identifies that PID namespace; 0: unknown
  Mark mark;
  BellName bell{};  ///< name of the socket that wakes its background thread
};

/// Another rank, which has proved that it knows the job's secret.
struct Link {
  Card card;
  Descriptor doorbell, death;
  Descriptor socket;  ///< during the meeting, between the leader and another rank
};

struct Message;

/// The identity of this rank and the job, used by both sides of a handshake. The descriptors are borrowed; -1: there is
/// none.
struct Identity {
  Card card;
  std::string job, secret;
  int doorbell = -1, death = -1;
  int segment = -1;  ///< set on the leader only

  int rank() const noexcept { return card.rank; }
};

/// The result of call(): a link to the leader, and the segment.
struct Called {
  Link leader;
  Descriptor segment;
};

/// Connects to the leader `to`, which listens at `address`. Connects again if the leader closes the connection before
/// it has read this rank's message, as it does with the oldest of too many callers. Throws Error{peer_lost} with the
/// reason if the leader cannot be reached or authenticated, Error{timeout} after `until`, Error{resource}.
Called call(const Identity& self, int to, const std::string& address, Deadline until);

/// Called by the leader: sends to every rank of `links` the cards and descriptors of all ranks, itself included.
void send_rosters(const Identity& self, std::vector<Link>& links);

/// Waits for the leader's roster and returns all ranks in it except this one. Throws Error{peer_lost} if the leader
/// ends first, Error{timeout} after `until`, Error{resource} if this process may not have that many descriptors.
std::vector<Link> receive_roster(const Identity& self, const Link& leader, Deadline until);

/// The leader's side: accepts connections. Callers that do not authenticate as one of the awaited ranks are refused and
/// logged. A silent or malformed caller never delays the others. One thread at a time.
class Listener {
 public:
  /// Listens under a random abstract name, which disappears with this process. Throws Error{resource}. `self` is
  /// borrowed. `any_user`: accepts other user ids, since a user may have another id in another user namespace.
  Listener(const Identity& self, std::size_t ranks, bool any_user);

  const std::string& address() const noexcept { return address_; }

  /// Waits for at most `slice` and handles what has arrived. Appends the ranks of `awaited` that have authenticated to
  /// `arrived`. Returns false if no caller connected or sent anything.
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
