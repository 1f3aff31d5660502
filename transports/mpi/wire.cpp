#include "transports/mpi/wire.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace tutti::mpi {
namespace {

constexpr std::size_t cell_bytes = 64 << 10, most_spare = 16;
constexpr std::size_t cells_under_way = 4;  // per peer
constexpr int arrivals_at_once = 16;
constexpr int stream_tag = 7;

}  // namespace

MpiWire::MpiWire(Session& session, std::unique_ptr<Comm> comm, std::vector<int> ranks, int world_size,
                 TransportListener& listener)
    : session_(session),
      comm_(std::move(comm)),
      ranks_(std::move(ranks)),
      listener_(listener),
      peers_(static_cast<std::size_t>(world_size)) {
  comm_->linger();
  for (std::size_t i = 0; i < ranks_.size(); ++i) at(ranks_[i]).place = static_cast<int>(i);
}

MpiWire::~MpiWire() {
  const auto turn = session_.turn();
  bool open = false;
  for (Peer& peer : peers_)
    for (Cells* cells : {&peer.out, &peer.in})
      for (auto& one : *cells) {
        if (!one->done && !broken_ && !session_.ended()) test(*one);
        if (one->done) continue;
        open = true;
        static_cast<void>(one.release());  // leaked: MPI may still use it
      }
  if (open) comm_->abandon();
}

std::unique_ptr<MpiWire::Cell> MpiWire::cell(std::size_t bytes) {
  std::unique_ptr<Cell> fresh;
  if (spare_.empty()) {
    fresh = std::make_unique<Cell>();
  } else {
    fresh = std::move(spare_.back());
    spare_.pop_back();
  }
  fresh->bytes.resize(bytes);
  fresh->read = 0;
  fresh->done = false;
  return fresh;
}

void MpiWire::give(std::unique_ptr<Cell> cell) {
  if (spare_.size() < most_spare) spare_.push_back(std::move(cell));
}

// A failing MPI call fails the whole wire: no peer can be reached without MPI.
void MpiWire::failed(int code, const char* function) {
  if (code == MPI_SUCCESS || broken_) return;
  broken_ = true;
  Cause why = session_.status(code, function).cause();
  why.reporter = why.culprit = ranks_[static_cast<std::size_t>(comm_->rank())];
  listener_.failed(why);
}

void MpiWire::test(Cell& cell) {
  int flag = 0;
  failed(session_.call.test(&cell.request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  cell.done = flag != 0;
}

void MpiWire::retire(Cells& out) {
  while (!out.empty()) {
    test(*out.front());
    if (!out.front()->done) return;
    give(std::move(out.front()));
    out.pop_front();
  }
}

std::size_t MpiWire::write(int to, std::span<const ConstBytes> pieces) {
  Peer& peer = at(to);
  if (broken_ || session_.ending()) return 0;
  const auto turn = session_.turn();
  if (peer.out.size() >= cells_under_way) retire(peer.out);
  std::size_t left = 0, written = 0;
  for (const ConstBytes& piece : pieces) left += piece.size();
  std::size_t index = 0, offset = 0;
  while (left > 0 && peer.out.size() < cells_under_way && !broken_) {
    auto next = cell(std::min(left, cell_bytes));
    for (std::size_t have = 0; have < next->bytes.size();) {
      const ConstBytes rest = pieces[index].subspan(offset);
      const std::size_t n = std::min(rest.size(), next->bytes.size() - have);
      if (n > 0) std::memcpy(next->bytes.data() + have, rest.data(), n);
      have += n;
      offset += n;
      if (offset == pieces[index].size()) ++index, offset = 0;
    }
    const std::size_t n = next->bytes.size();
    failed(session_.call.isend(next->bytes.data(), static_cast<int>(n), session_.type(DType::u8), peer.place,
                               stream_tag, comm_->get(), &next->request),
           "MPI_Isend");
    peer.out.push_back(std::move(next));
    written += n;
    left -= n;
  }
  return written;
}

void MpiWire::take_arrivals() {
  const Functions& call = session_.call;
  for (int i = 0; i < arrivals_at_once && !broken_; ++i) {
    int flag = 0, count = 0;
    MPI_Message message;
    MPI_Status status;
    failed(call.improbe(MPI_ANY_SOURCE, stream_tag, comm_->get(), &flag, &message, &status), "MPI_Improbe");
    if (!flag || broken_) return;
    call.get_count(&status, session_.type(DType::u8), &count);
    auto next = cell(static_cast<std::size_t>(count));
    failed(call.imrecv(next->bytes.data(), count, session_.type(DType::u8), &message, &next->request), "MPI_Imrecv");
    at(ranks_[static_cast<std::size_t>(status.MPI_SOURCE)]).in.push_back(std::move(next));
  }
}

void MpiWire::poll(std::vector<int>& ranks) {
  if (broken_ || session_.ending()) return;
  const auto turn = session_.turn();
  take_arrivals();
  for (const int rank : ranks_) {
    Peer& peer = at(rank);
    if (!peer.out.empty()) retire(peer.out);
    if (peer.gone) {
      while (!peer.in.empty() && (peer.in.front()->done || (test(*peer.in.front()), peer.in.front()->done)))
        peer.in.pop_front();
      continue;
    }
    if (peer.in.empty()) continue;
    if (!peer.in.front()->done) test(*peer.in.front());
    if (peer.in.front()->done) ranks.push_back(rank);
  }
}

ConstBytes MpiWire::peek(int from) {
  Peer& peer = at(from);
  if (peer.in.empty() || peer.gone) return {};
  Cell& head = *peer.in.front();
  if (!head.done) {
    const auto turn = session_.turn();
    test(head);
    if (!head.done) return {};
  }
  return ConstBytes(head.bytes).subspan(head.read);
}

void MpiWire::consume(int from, std::size_t bytes) {
  Peer& peer = at(from);
  if (bytes == 0) return;
  Cell& head = *peer.in.front();
  head.read += bytes;
  if (head.read < head.bytes.size()) return;
  give(std::move(peer.in.front()));
  peer.in.pop_front();
}

void MpiWire::drop(int peer) noexcept { at(peer).gone = true; }

void MpiWire::close(Deadline until) noexcept {
  const auto pending = [&] {
    const auto turn = session_.turn();
    bool any = false;
    for (Peer& peer : peers_) {
      retire(peer.out);
      any |= !peer.out.empty();
    }
    return any;
  };
  while (!broken_ && !session_.ended() && pending() && Clock::now() < until) ::sched_yield();
}

}  // namespace tutti::mpi
