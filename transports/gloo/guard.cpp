#include "transports/gloo/guard.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/pair.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace tutti {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Gloo adds this timeout to the current time; the sum must not overflow. tutti's context enforces deadlines.
constexpr Milliseconds endless = std::chrono::hours(24 * 365 * 10);

// Keeps the slots (message tags) of bound buffers apart from those of unbound ones.
constexpr std::uint64_t bound_slot = std::uint64_t{1} << 63;
constexpr std::uint64_t probe_slot = ~std::uint64_t{0};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::string plain_text(const char* what) {
  const std::string text = what;
  const std::size_t end = text.starts_with('[') ? text.find("] ") : text.npos;
  return end == text.npos ? text : text.substr(end + 2);
}

/// A guarded Gloo buffer. One thread, except that any thread may call abortWaitRecv() and abortWaitSend().
class GuardedBuffer final : public gloo::transport::UnboundBuffer {
 public:
  GuardedBuffer(std::shared_ptr<Guard> guard, gloo::transport::Context& real, void* memory, std::size_t bytes)
      : UnboundBuffer(memory, bytes),
        guard_(std::move(guard)),
        context_(real),
        real_(real.createUnboundBuffer(memory, bytes)) {
    const std::lock_guard lock(guard_->mutex_);
    if (guard_->closed_) throw MeshClosed();
    guard_->buffers_.insert(this);
  }
  ~GuardedBuffer() override {
    const std::lock_guard lock(guard_->mutex_);
    guard_->buffers_.erase(this);
  }

  bool waitRecv(int* rank, Milliseconds) override {
    wait([&] { return real_->waitRecv(rank, endless); });
    return true;
  }
  bool waitSend(int* rank, Milliseconds) override {
    wait([&] { return real_->waitSend(rank, endless); });
    return true;
  }
  void abortWaitRecv() override { real_->abortWaitRecv(); }
  void abortWaitSend() override { real_->abortWaitSend(); }

  void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const std::size_t exact = bytes == kUnspecifiedByteCount ? size - offset : bytes;
    talk(to, [&] { real_->send(to, of_call(slot, exact), offset, exact); });
  }
  void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const std::size_t exact = bytes == kUnspecifiedByteCount ? size - offset : bytes;
    talk(from, [&] { real_->recv(from, of_call(slot, exact), offset, exact); });
  }
  void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override {
    throw std::logic_error("gloo received from anybody, which none of its collectives does");
  }

  // For bound buffers: the receiver does not know the message's size, so the slot does not contain it.
  void send_bound(int to, int slot, std::size_t offset, std::size_t bytes) {
    talk(to, [&] { real_->send(to, of_call(bound_slot | static_cast<std::uint32_t>(slot), 0), offset, bytes); });
  }
  void recv_bound(int from, int slot) {
    talk(from, [&] { real_->recv(from, of_call(bound_slot | static_cast<std::uint32_t>(slot), 0), 0, size); });
  }

 private:
  std::uint64_t of_call(std::uint64_t slot, std::size_t bytes) const noexcept {
    return mixed(mixed(guard_->salt(), slot), bytes);
  }

  template <class Wait>
  void wait(Wait real_wait) {
    if (guard_->closed()) throw MeshClosed();
    bool ended = false;
    try {
      ended = real_wait();
    } catch (const std::exception& error) {
      blame(error);
    }
    if (!ended) throw MeshClosed();
  }

  template <class Step>
  void talk(int peer, Step step) {
    if (guard_->closed()) throw MeshClosed();
    if (std::ranges::find(peers_, peer) == peers_.end()) peers_.push_back(peer);
    try {
      step();
    } catch (const std::exception& error) {
      throw PeerBroken(peer, plain_text(error.what()));
    }
  }

  // Gloo's exception contains an address at most. A broken connection refuses every operation, so a receive from each
  // peer shows which connection broke.
  [[noreturn]] void blame(const std::exception& error) const {
    for (const int peer : peers_) {
      try {
        context_.createUnboundBuffer(nullptr, 0)->recv(peer, probe_slot);
      } catch (const std::exception& refused) {
        throw PeerBroken(peer, plain_text(refused.what()));
      }
    }
    throw PeerBroken(-1, plain_text(error.what()));
  }

  const std::shared_ptr<Guard> guard_;
  gloo::transport::Context& context_;
  const std::unique_ptr<UnboundBuffer> real_;
  std::vector<int> peers_;  // peers with which this buffer exchanged messages
};

void Guard::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (GuardedBuffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

bool Guard::closed() const noexcept {
  const std::lock_guard lock(mutex_);
  return closed_;
}

namespace {

/// A bound buffer on top of an unbound one. Gloo's own bound buffers cannot be woken, and Gloo's send queue keeps
/// pointers to destroyed ones. The destructor waits until everything is sent.
class BoundBuffer final : public gloo::transport::Buffer {
 public:
  BoundBuffer(std::unique_ptr<GuardedBuffer> buffer, int peer, int slot)
      : Buffer(slot, buffer->ptr, buffer->size), peer_(peer), buffer_(std::move(buffer)) {}
  ~BoundBuffer() override {
    try {
      while (sending_ > 0) waitSend();
    } catch (const std::exception&) {  // closed or broken: nothing is being sent
    }
  }

  void send(std::size_t offset, std::size_t bytes, std::size_t) override {
    buffer_->send_bound(peer_, slot_, offset, bytes);
    ++sending_;
  }
  void waitRecv() override {
    buffer_->recv_bound(peer_, slot_);
    buffer_->waitRecv(nullptr, endless);
  }
  void waitSend() override {
    buffer_->waitSend(nullptr, endless);
    --sending_;
  }

 private:
  const int peer_;
  const std::unique_ptr<GuardedBuffer> buffer_;
  int sending_ = 0;
};

class GuardedPair final : public gloo::transport::Pair {
 public:
  GuardedPair(std::shared_ptr<Guard> guard, gloo::transport::Context& real, int peer)
      : guard_(std::move(guard)), context_(real), peer_(peer) {
    setLocalRank(real.getPair(peer)->getLocalRank());
  }

  const gloo::transport::Address& address() const override { return real().address(); }
  void connect(const std::vector<char>& bytes) override { real().connect(bytes); }
  void close() override { real().close(); }
  void setSync(bool enable, bool busy) override { real().setSync(enable, busy); }

  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int slot, void* memory, std::size_t bytes) override {
    return bound(slot, memory, bytes);
  }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int slot, void* memory, std::size_t bytes) override {
    return bound(slot, memory, bytes);
  }
  void send(gloo::transport::UnboundBuffer* buffer, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    buffer->send(peer_, slot, offset, bytes);
  }
  void recv(gloo::transport::UnboundBuffer* buffer, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    buffer->recv(peer_, slot, offset, bytes);
  }

 private:
  gloo::transport::Pair& real() const { return *context_.getPair(peer_); }
  std::unique_ptr<gloo::transport::Buffer> bound(int slot, void* memory, std::size_t bytes) const {
    return std::make_unique<BoundBuffer>(std::make_unique<GuardedBuffer>(guard_, context_, memory, bytes), peer_, slot);
  }

  const std::shared_ptr<Guard> guard_;
  gloo::transport::Context& context_;
  const int peer_;
};

class GuardedContext final : public gloo::transport::Context {
 public:
  GuardedContext(std::shared_ptr<Guard> guard, std::shared_ptr<gloo::transport::Context> real)
      : Context(real->rank, real->size), guard_(std::move(guard)), real_(std::move(real)) {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) pairs_[static_cast<std::size_t>(peer)] = std::make_unique<GuardedPair>(guard_, *real_, peer);
  }
  ~GuardedContext() override { pairs_.clear(); }  // before the members that the pairs refer to

  std::unique_ptr<gloo::transport::Pair>& createPair(int) override {
    throw std::logic_error("the mesh is connected already");
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* memory, std::size_t bytes) override {
    return std::make_unique<GuardedBuffer>(guard_, *real_, memory, bytes);
  }

 private:
  const std::shared_ptr<Guard> guard_;
  const std::shared_ptr<gloo::transport::Context> real_;
};

}  // namespace

std::shared_ptr<gloo::transport::Context> make_guarded(std::shared_ptr<Guard> guard,
                                                       std::shared_ptr<gloo::transport::Context> real) {
  return std::make_shared<GuardedContext>(std::move(guard), std::move(real));
}

}  // namespace tutti
