#include "transports/shm/messages.hpp"

#include <sys/uio.h>

#include <cerrno>
#include <thread>

#include "transports/core/chaos.hpp"
#include "tutti/clock.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t most_descriptors = 2 * cards_at_once;
constexpr Seconds descriptors_limit{10.0};  // longest wait: the kernel limits a user's descriptors in flight

bool send_parts(int socket, std::span<iovec> parts, std::span<const int> descriptors) {
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = parts.size();
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  if (!descriptors.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  const Deadline limit = deadline_in(descriptors_limit);
  const auto send = [&] { return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT); };
  while (system_faults::interruptible(send) < 0) {
    if ((errno != ETOOMANYREFS && errno != EAGAIN && errno != EINTR) || Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Takes ownership of all attached descriptors before any other check, so that none leaks.
void take_descriptors(msghdr& header, std::vector<Descriptor>& into) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      into.emplace_back(fd);
    }
  }
}

}  // namespace

bool send_message(int socket, Message message, const Carried& carried) {
  std::vector<int> descriptors;
  for (std::size_t i = 0; i < carried.size(); ++i) {
    message.carries[i] = carried[i] >= 0;
    if (carried[i] >= 0) descriptors.push_back(carried[i]);
  }
  iovec part = {&message, sizeof message};
  return send_parts(socket, {&part, 1}, descriptors);
}

bool send_cards(int socket, Message message, std::span<const Card> cards, std::span<const int> descriptors) {
  message.cards = static_cast<std::uint32_t>(cards.size());
  iovec parts[] = {{&message, sizeof message}, {const_cast<Card*>(cards.data()), cards.size_bytes()}};
  return send_parts(socket, parts, descriptors);
}

Received receive_message(int socket, std::size_t most) {
  Received received;
  received.cards.resize(cards_at_once);
  iovec parts[] = {{&received.message, sizeof received.message}, {received.cards.data(), cards_at_once * sizeof(Card)}};
  alignas(cmsghdr) char control[CMSG_SPACE(most_descriptors * sizeof(int))];
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = std::size(parts);
  if (most > 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_LEN(std::min(most, most_descriptors) * sizeof(int));
  }
  const ssize_t n =
      system_faults::interruptible([&] { return ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  using Kind = Received::Kind;
  if (n < 0) {
    received.kind = errno == EAGAIN || errno == EINTR ? Kind::nothing_yet
                    : errno == ECONNRESET             ? Kind::unheard
                                                      : Kind::ended;
    return received;
  }
  take_descriptors(header, received.descriptors);
  const Message& message = received.message;
  const bool sound = n >= static_cast<ssize_t>(sizeof message) && message.magic == Message().magic &&
                     message.version == Message().version && message.cards <= cards_at_once &&
                     static_cast<std::size_t>(n) == sizeof message + message.cards * sizeof(Card) &&
                     !(header.msg_flags & MSG_TRUNC);
  received.kind = n == 0                                 ? Kind::ended
                  : !sound                               ? Kind::garbage
                  : (header.msg_flags & MSG_CTRUNC) != 0 ? Kind::truncated
                                                         : Kind::message;
  if (sound) received.cards.resize(message.cards);
  return received;
}

}  // namespace tutti::shm
