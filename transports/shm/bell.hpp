// Bells: how a rank of a host wakes another one's background thread, without a descriptor for each pair of ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transports/core/descriptor.hpp"

namespace tutti::shm {

/// Random, so that nobody takes the name beforehand.
using BellName = std::array<std::uint8_t, 16>;

/// Random bytes of the kernel. Throws Error{resource}.
BellName fresh_name();
/// The abstract unix address with that name, as text without its leading zero byte: "tutti-" and 32 digits.
using AddressText = std::array<char, 38>;
AddressText address_of(const BellName& name) noexcept;

/// What to say where no unix socket can be opened, by errno.
std::string no_socket_text(int error);

/// A datagram socket of this rank, readable when somebody has rung. Whoever finds its name can ring, and makes this
/// rank look at its memory, no more.
class Bell {
 public:
  Bell() = default;
  /// Throws Error{resource}.
  static Bell make();

  int fd() const noexcept { return socket_.fd(); }
  const BellName& name() const noexcept { return name_; }
  /// Rings that of another rank; false if that has ended. A full queue rings already.
  bool ring(const BellName& whose) const noexcept;
  void hush() const noexcept;

 private:
  Descriptor socket_;
  BellName name_{};
};

}  // namespace tutti::shm
