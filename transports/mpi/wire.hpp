// MpiWire: streams of bytes between ranks, as messages of MPI.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transports/mpi/session.hpp"
#include "transports/stream/transport.hpp"

namespace tutti::mpi {

/// Data is copied into cells, which MPI sends. Matched probes find arriving messages, which are then received into
/// cells of their size. Probes keep each sender's order and leave no receive posted at the end. MPI has no descriptor
/// to wait on, so waiting threads poll.
class MpiWire final : public Wire {
 public:
  /// `ranks[i]`: the world rank of rank i of `comm`.
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
    int place = -1;  // rank in the communicator
    Cells out, in;   // in stream order
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
  bool broken_ = false;  // an MPI call has failed
};

}  // namespace tutti::mpi
