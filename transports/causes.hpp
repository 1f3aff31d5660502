// Causes that every transport has to word alike: a refused message, a rank that has ended.
#pragma once

#include "transports/transport.hpp"

namespace tutti {

/// One end of a message: which world rank, its call's signature, its idea of the size.
struct End {
  int rank = -1;
  std::uint64_t call = 0;
  std::size_t bytes = 0;
};

/// The two ends of a message belong to different calls, or differ in size.
Cause mismatch(const Tag& tag, const End& sender, const End& receiver, int reporter);

/// An operation needs `peer`, which has left the job normally.
Cause ended(int peer, int reporter);

}  // namespace tutti
