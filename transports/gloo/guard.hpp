// A wrapper around Gloo's connections that makes waits interruptible, separates the messages of different calls, and
// reports the rank of a broken connection.
//
// Gloo lacks all three: closing its connections does not wake a waiting thread; a message larger than the receive's
// buffer ends the process; and operations in progress on a broken connection may wait forever.
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

/// The connection to `peer` broke. `peer` is a rank of the group, or -1 if unknown.
struct PeerBroken : std::runtime_error {
  PeerBroken(int rank, const std::string& text) : std::runtime_error(text), peer(rank) {}
  int peer;
};

/// Gloo's error text without the source location.
std::string plain_text(const char* what);

class GuardedBuffer;

/// State shared by the buffers of one mesh.
class Guard {
 public:
  /// Makes all pending and later waits on buffers throw MeshClosed. Any thread.
  void close() noexcept;
  bool closed() const noexcept;

  /// Sets the salt of the next call. Messages of two ranks match only if their calls have the same salt. Called between
  /// calls, by the thread that performs them.
  void salt(std::uint64_t value) noexcept { salt_ = value; }
  std::uint64_t salt() const noexcept { return salt_; }

 private:
  friend class GuardedBuffer;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::set<GuardedBuffer*> buffers_;
  std::uint64_t salt_ = 0;
};

/// Wraps Gloo's transport context; used by gloo::Context after it has connected.
std::shared_ptr<gloo::transport::Context> make_guarded(std::shared_ptr<Guard> guard,
                                                       std::shared_ptr<gloo::transport::Context> real);

}  // namespace tutti
