// MpiWire: streams of bytes between ranks, as messages of MPI.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transports/mpi/session.hpp"
#include "transports/stream_transport.hpp"

namespace tutti::mpi {

/// Every write is copied into cells, which MPI sends; what arrives is asked for (a matched probe, so that the order of
/// each sender's messages is known and no receive is left over at the end) and received into cells of its size. MPI has
/// nothing to sleep on: who waits looks again and again.
class MpiWire final : public Wire {
 public:
  /// `ranks`: world ranks of the communicator's ranks, in order.
  MpiWire(Session& session, std::unique_ptr<Comm> comm, std::vector<int> ranks, int world_size,
          TransportListener& listener);
  ~MpiWire() override;

  std::size_t write(int to, std::span<const ConstBytes> pieces) override;
  ConstBytes peek(int from) override;
  void consume(int from, std::size_t bytes) override;
  void poll(std::vector<int>& ranks) override;
  Transport::Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
  bool polled() const noexcept override { return true; }
  void drop(int peer) noexcept override;
  std::string describe(int) const override { return {}; }
  void ring(int) noexcept override {}
  bool post(const Cause&) noexcept override { return false; }
  void close(Deadline until) noexcept override;

 private:
  struct Cell {
    std::vector<std::byte> bytes;
    std::size_t read = 0;
    MPI_Request request = {};
    bool done = false;
  };
  using Cells = std::deque<std::unique_ptr<Cell>>;
  struct Peer {
    int place = -1;  // in the communicator
    Cells out, in;   // in the order of the stream
    bool gone = false;
  };
  Peer& at(int rank) noexcept { return peers_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<Cell> cell(std::size_t bytes);
  void give(std::unique_ptr<Cell> cell);
  void test(Cell& cell);
  void retire(Cells& out);
  void take_arrivals();
  void failed(int code, const char* function);

  Session& session_;
  std::unique_ptr<Comm> comm_;
  const std::vector<int> ranks_;
  TransportListener& listener_;
  std::vector<Peer> peers_;  // by world rank
  std::vector<std::unique_ptr<Cell>> spare_;
  bool broken_ = false;  // a call of MPI has failed
};

}  // namespace tutti::mpi
