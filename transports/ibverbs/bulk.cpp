// Bulk: offers, RDMA writes (puts), and their completion.
#include "transports/ibverbs/bulk.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::ibverbs {

/// The contents of an offer.
struct Bulk::Told {
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t key = 0, number = 0;
};

Bulk::Bulk(Adapter& adapter, int peer, const Endpoint& own, const Endpoint& its, std::uint8_t path)
    : adapter_(adapter), peer_(peer), path_(path), own_(own), its_(its), first_packet_(random_packet()) {
  static_assert(sizeof(Told) < sizeof(RemotePlace));  // the last byte is the path
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = adapter.queue();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {most_bulk, most_bulk, 1, 1, 0};
  pair_.reset(ibv_create_qp(adapter.domain(), &wanted));
  if (pair_ && prepare(pair_.get(), own, IBV_ACCESS_REMOTE_WRITE) != 0) pair_.reset();
  ibv_port_attr port{};
  if (ibv_query_port(adapter.context(), static_cast<std::uint8_t>(own.port), &port) == 0)
    longest_ = std::min<std::size_t>(port.max_msg_sz, longest_put);
}

void Bulk::introduce(Hello& mine) const noexcept {
  mine.bulk_queue_pair[path_] = pair_ ? pair_->qp_num : 0;
  mine.bulk_first_packet[path_] = first_packet_;
}

void Bulk::connect(const Hello& its, Seconds silence) noexcept {
  const std::uint32_t number = its.bulk_queue_pair[path_];
  if (!pair_ || number == 0) return;
  open_ = bring_up(pair_.get(), {own_, its_, first_packet_, number, its.bulk_first_packet[path_]}, silence) == 0;
}

// Posts one more receive, without a buffer, if fewer than `offers` are posted: each put of the peer consumes one.
// Returns false if the device refuses.
bool Bulk::await(std::size_t offers) noexcept {
  if (awaited_ >= offers) return true;
  ibv_recv_wr request{}, *refused = nullptr;
  request.wr_id = Ticket{peer_, Ticket::What::filled, 0, path_}.id();
  if (ibv_post_recv(pair_.get(), &request, &refused) != 0) return false;
  ++awaited_;
  return true;
}

bool Bulk::offer(std::uint64_t recv, Bytes into, RemotePlace& place) noexcept {
  if (!open_ || stopped_ || into.size() < least_put || into.size() > longest_) return false;
  const auto free = std::ranges::find(offers_, 0u, &Offer::recv);
  if (free == offers_.end() || !await(offered_ + 1)) return false;
  const ibv_mr* region = adapter_.memories().find(into);
  if (region == nullptr) {
    free->region = adapter_.open(into, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    region = free->region.get();
  }
  if (region == nullptr) return false;  // the limit of locked memory is reached, or the device cannot reach this memory
  free->recv = recv;
  free->number = static_cast<std::uint32_t>(numbered_++ * most_bulk + static_cast<std::size_t>(free - offers_.begin()));
  ++offered_;
  Told told;
  told.address = reinterpret_cast<std::uintptr_t>(into.data());
  told.bytes = into.size();
  told.key = region->rkey;
  told.number = free->number;
  std::memcpy(place.told.data(), &told, sizeof told);
  return true;
}

bool Bulk::put(std::uint64_t send, ConstBytes data, const RemotePlace& place) noexcept {
  Told told;
  std::memcpy(&told, place.told.data(), sizeof told);
  if (!open_ || stopped_ || data.size() > longest_ || told.bytes != data.size()) return false;
  const auto free = std::ranges::find(puts_, 0u, &Put::send);
  if (free == puts_.end()) return false;
  const ibv_mr* region = adapter_.memories().find(data);
  if (region == nullptr) {
    free->region = adapter_.open(data, 0);
    region = free->region.get();
  }
  if (region == nullptr) return false;
  ibv_sge part{reinterpret_cast<std::uintptr_t>(data.data()), static_cast<std::uint32_t>(data.size()), region->lkey};
  ibv_send_wr request{}, *refused = nullptr;
  request.wr_id = Ticket{peer_, Ticket::What::put, static_cast<std::uint8_t>(free - puts_.begin()), path_}.id();
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(told.number);
  request.wr.rdma.remote_addr = told.address;
  request.wr.rdma.rkey = told.key;
  if (ibv_post_send(pair_.get(), &request, &refused) != 0) {
    free->region.reset();
    return false;
  }
  free->send = send;
  return true;
}

bool Bulk::revoke_offer(std::uint64_t recv) noexcept {
  const auto found = std::ranges::find(offers_, recv, &Offer::recv);
  if (recv == 0 || found == offers_.end()) return true;
  const bool shut = found->region != nullptr;
  *found = {};  // the region is deregistered: the device refuses to write there from here on
  --offered_;
  return shut;
}

bool Bulk::putting(std::uint64_t send) const noexcept {
  return send != 0 && std::ranges::find(puts_, send, &Put::send) != puts_.end();
}

void Bulk::done(std::size_t put, std::vector<Ended>& ended) noexcept {
  if (!open_ || put >= puts_.size() || puts_[put].send == 0) return;
  ended.push_back({Ended::What::put, puts_[put].send});
  puts_[put] = {};
}

void Bulk::filled(std::uint32_t offer, std::vector<Ended>& ended) noexcept {
  if (!open_) return;
  --awaited_;
  Offer& filled = offers_[offer % most_bulk];
  // the offer was revoked; the receive it consumed must be posted again
  if (filled.recv == 0 || filled.number != offer) {
    if (!stopped_ && !await(offered_)) stop();
    return;
  }
  ended.push_back({Ended::What::filled, filled.recv});
  filled = {};
  --offered_;
}

void Bulk::undone(const Ticket& ticket, std::vector<Ended>& ended) noexcept {
  if (!open_) return;
  if (ticket.what == Ticket::What::filled) {
    --awaited_;
  } else if (ticket.slot < puts_.size() && puts_[ticket.slot].send != 0) {
    ended.push_back({Ended::What::failed_put, puts_[ticket.slot].send});
    puts_[ticket.slot] = {};
  }
}

bool Bulk::stop() noexcept {
  if (!open_ || std::exchange(stopped_, true)) return true;
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(pair_.get(), &state, IBV_QP_STATE) == 0;
}

bool Bulk::idle() const noexcept {
  return !open_ || (awaited_ == 0 && std::ranges::all_of(puts_, [](const Put& put) { return put.send == 0; }));
}

// Offers are not reported as ended, since their data will come through the slots. Their regions are released.
void Bulk::close(std::vector<Ended>& ended) noexcept {
  open_ = false;
  pair_.reset();
  for (Put& put : puts_) {
    if (put.send != 0) ended.push_back({Ended::What::failed_put, put.send});
    put = {};
  }
  for (Offer& offer : offers_) offer = {};
  offered_ = awaited_ = 0;
}

}  // namespace tutti::ibverbs
