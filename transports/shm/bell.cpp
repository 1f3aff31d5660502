#include "transports/shm/bell.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transports/core/open_files.hpp"
#include "transports/core/random.hpp"
#include "transports/shm/messages.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {

BellName fresh_name() {
  BellName name;
  fill_random(name.data(), name.size());
  return name;
}

AddressText address_of(const BellName& name) noexcept {
  AddressText address{'t', 'u', 't', 't', 'i', '-'};
  char* next = address.data() + 6;
  for (const std::uint8_t byte : name) {
    *next++ = "0123456789abcdef"[byte >> 4];
    *next++ = "0123456789abcdef"[byte & 15];
  }
  return address;
}

std::string no_socket_text(int error) {
  const std::string more = about_open_files(error, 1);
  return std::string("no unix socket can be opened: ") + std::strerror(error) + (more.empty() ? "" : ". " + more);
}

Bell Bell::make() {
  Bell bell;
  bell.name_ = fresh_name();
  bell.socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AddressText name = address_of(bell.name_);
  const UnixAddress address({name.data(), name.size()});
  if (!bell.socket_ || ::bind(bell.fd(), address.get(), address.length) != 0)
    throw Error(Code::resource, no_socket_text(errno));
  return bell;
}

bool Bell::ring(const BellName& whose) const noexcept {
  const AddressText name = address_of(whose);
  const UnixAddress address({name.data(), name.size()});
  const char nudge = 'n';
  return ::sendto(fd(), &nudge, 1, MSG_NOSIGNAL | MSG_DONTWAIT, address.get(), address.length) == 1 || errno == EAGAIN;
}

void Bell::hush() const noexcept {
  char nudge;
  for (int rings = 0; rings < 1000 && ::recv(fd(), &nudge, 1, MSG_DONTWAIT) >= 0; ++rings) continue;
}

}  // namespace tutti::shm
