// SHA-256 and HMAC: how ranks prove that they know the job's secret without sending it.
#pragma once

#include <array>
#include <cstddef>

#include "transports/core/buffer.hpp"

namespace tutti {

using Digest = std::array<std::byte, 32>;

/// FIPS 180-4.
Digest sha256(ConstBytes message) noexcept;

/// RFC 2104 over sha256(); a key of any length, also empty.
Digest hmac_sha256(ConstBytes key, ConstBytes message);

/// Takes the same time wherever the two differ. False for different lengths.
bool equal_constant_time(ConstBytes a, ConstBytes b) noexcept;

}  // namespace tutti
