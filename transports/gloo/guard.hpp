// What stands between Gloo's algorithms and its connections, so that a wait can be ended, messages of calls that differ
// never meet, and a broken connection has a rank.
//
// Gloo's own means do not suffice: closing its connections wakes nobody who waits here; a message that does not fit
// the buffer of its receive ends the process; and what was under way when a connection broke may wait for ever.
#pragma once

#include <gloo/transport/context.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

namespace tutti {

/// Thrown by a wait after Guard::close().
struct MeshClosed : std::runtime_error {
  MeshClosed() : std::runtime_error("the communicator has ended") {}
};

/// A connection broke: to `peer`, a rank of the group, or -1 where that is not known.
struct PeerBroken : std::runtime_error {
  PeerBroken(int rank, const std::string& text) : std::runtime_error(text), peer(rank) {}
  int peer;
};

/// Gloo's sentence without the place in its sources.
std::string plain_text(const char* what);

class GuardedBuffer;

/// What the buffers of one mesh share.
class Guard {
 public:
  /// Every wait on a buffer, under way or later, throws MeshClosed. Any thread.
  void close() noexcept;
  bool closed() const noexcept;

  /// Only messages of calls with equal salt meet. By the thread that plays the calls, between them.
  void salt(std::uint64_t value) noexcept { salt_ = value; }
  std::uint64_t salt() const noexcept { return salt_; }

 private:
  friend class GuardedBuffer;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::set<GuardedBuffer*> buffers_;
  std::uint64_t salt_ = 0;
};

/// Gloo's transport context, guarded: what gloo::Context hands out after it has connected.
std::shared_ptr<gloo::transport::Context> make_guarded(std::shared_ptr<Guard> guard,
                                                       std::shared_ptr<gloo::transport::Context> real);

}  // namespace tutti
