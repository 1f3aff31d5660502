// SHA-256 and HMAC, with which ranks prove that they know the job's secret without sending it.
#pragma once

#include <array>
#include <cstddef>

#include "tutti/buffer.hpp"

namespace tutti {

using Digest = std::array<std::byte, 32>;

/// FIPS 180-4.
Digest sha256(ConstBytes message) noexcept;

/// RFC 2104 over sha256(). `key` may have any length, also zero.
Digest hmac_sha256(ConstBytes key, ConstBytes message);

/// Compares in a time that does not depend on the contents. False if the lengths differ.
bool equal_constant_time(ConstBytes a, ConstBytes b) noexcept;

}  // namespace tutti
