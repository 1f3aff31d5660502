// Bells: sockets with names, by which a rank wakes the background thread of any other rank of its host. A rank needs
// one descriptor for its own bell and none for those of others.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transports/core/descriptor.hpp"

namespace tutti::shm {

/// The name of a bell. It is random, so that no other process can take the name before.
using BellName = std::array<std::uint8_t, 16>;

/// A new name, of random bytes from the kernel. Throws Error{resource}.
BellName fresh_name();
/// The abstract unix address of a bell, as text without its leading zero byte: "tutti-" and 32 hexadecimal digits.
using AddressText = std::array<char, 38>;
AddressText address_of(const BellName& name) noexcept;

/// The text of an error: no unix socket could be opened, because of the errno `error`.
std::string no_socket_text(int error);

/// A datagram socket of this rank, which is readable once another process has rung. Any process that knows the name can
/// ring. The only effect is that this rank checks its shared memory.
class Bell {
 public:
  Bell() = default;
  /// Opens a socket under a new name. Throws Error{resource}.
  static Bell make();

  int fd() const noexcept { return socket_.fd(); }
  const BellName& name() const noexcept { return name_; }
  /// Rings the bell `whose` of another rank. Returns false if it cannot be reached, as when that process has ended.
  /// Returns true if its queue is full: then it is already readable.
  bool ring(const BellName& whose) const noexcept;
  /// Removes up to 1000 received rings.
  void hush() const noexcept;

 private:
  Descriptor socket_;
  BellName name_{};
};

}  // namespace tutti::shm
