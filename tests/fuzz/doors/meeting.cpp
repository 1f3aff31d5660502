// A message between ranks of a host that meet over a unix socket.
#include <sys/socket.h>

#include "tests/fuzz/door.hpp"
#include "transports/shm/messages.hpp"

namespace tutti::fuzz {
namespace {

struct Pair {
  Pair() {
    int ends[2];
    expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "no sockets");
    in = Descriptor(ends[0]);
    out = Descriptor(ends[1]);
  }
  Descriptor in, out;
};

}  // namespace

bool take(Input input) {
  static const Pair pair;
  if (input.empty()) return false;  // an empty message means the end of the connection
  expect(send(pair.out.fd(), input.data(), input.size(), 0) == static_cast<ssize_t>(input.size()), "not sent");
  const shm::Received received = shm::receive_message(pair.in.fd());
  expect(received.cards.size() <= shm::cards_at_once, "more cards than a message has");
  return received.kind == shm::Received::Kind::message;
}

}  // namespace tutti::fuzz
