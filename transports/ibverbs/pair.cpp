// Pair: connects a queue pair and sends messages through its slots.
#include "transports/ibverbs/pair.hpp"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::ibverbs {
namespace {

constexpr std::uint32_t wanted_inline = 256;
constexpr int told_of_one_in = data_slots / 2;  // one message in this many requests a completion
constexpr int most_out = data_slots + spare_slots;

[[noreturn]] void refuse(const Adapter& adapter, int peer, const char* what) {
  throw Error(Code::resource, "the RDMA device " + adapter.name() + " has no " + what + " for rank " +
                                  std::to_string(peer) + " (" + std::strerror(errno) +
                                  "); raise the limit of locked memory (`ulimit -l unlimited`), or choose another "
                                  "transport by TUTTI_TRANSPORT");
}

}  // namespace

Pair::Pair(Adapter& adapter, int peer, const Endpoint& own, const Endpoint& its)
    : adapter_(adapter), peer_(peer), own_(own), its_(its), first_packet_(random_packet()) {
  void* const memory = ::mmap(nullptr, pair_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) refuse_allocation(pair_bytes, std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
  ::madvise(memory, pair_bytes, MADV_DONTFORK);  // keeps the device's pages with the parent after fork()
  try {
    set_up();
  } catch (...) {
    region_.reset();
    ::munmap(memory_, pair_bytes);
    throw;
  }
}

Pair::~Pair() {
  pair_.reset();  // the device accesses no slots from here on
  region_.reset();
  ::munmap(memory_, pair_bytes);
}

void Pair::set_up() {
  region_.reset(ibv_reg_mr(adapter_.domain(), memory_, pair_bytes, IBV_ACCESS_LOCAL_WRITE));
  if (!region_) refuse(adapter_, peer_, "registered memory");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = adapter_.queue();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {most_out, in_slots, 1, 1, wanted_inline};
  pair_.reset(ibv_create_qp(adapter_.domain(), &wanted));
  if (!pair_) {
    wanted.cap.max_inline_data = 0;
    pair_.reset(ibv_create_qp(adapter_.domain(), &wanted));
  }
  if (!pair_) refuse(adapter_, peer_, "queue pair");
  inline_bytes_ = wanted.cap.max_inline_data;
  errno = ibverbs::prepare(pair_.get(), own_, 0);  // no remote access
  if (errno != 0) refuse(adapter_, peer_, "usable port");
  for (std::uint8_t slot = 0; slot < in_slots; ++slot) offer({&slot, 1});
}

void Pair::introduce(Hello& mine) const noexcept {
  mine.queue_pair = pair_->qp_num;
  mine.first_packet = first_packet_;
  mine.state = connected_ ? Hello::State::ready : Hello::State::here;
}

int Pair::connect(const Hello& its, Seconds silence) noexcept {
  const int error = bring_up(pair_.get(), {own_, its_, first_packet_, its.queue_pair, its.first_packet}, silence);
  connected_ = error == 0;
  return error;
}

// ---- sending ----

std::size_t Pair::send(std::span<const ConstBytes> pieces) noexcept {
  std::size_t done = 0, offset = 0;
  while (!pieces.empty() && credit_.may_send() && out_ < data_slots && !broken_) {
    std::byte* const slot = out_slot(next_out_);
    std::size_t filled = 0;
    while (filled < slot_bytes && !pieces.empty()) {
      const ConstBytes rest = pieces.front().subspan(offset);
      const std::size_t part = std::min(rest.size(), slot_bytes - filled);
      if (part > 0) std::memcpy(slot + filled, rest.data(), part);
      filled += part;
      offset += part;
      if (part < rest.size()) break;
      pieces = pieces.subspan(1);
      offset = 0;
    }
    if (filled == 0) break;
    next_out_ = (next_out_ + 1) % data_slots;
    prepare({slot, filled}, credit_.take(), false);
    done += filled;
  }
  post();
  return done;
}

void Pair::prepare(ConstBytes bytes, std::uint32_t credit, bool told) noexcept {
  ibv_sge& part = parts_[prepared_];
  ibv_send_wr& request = requests_[prepared_];
  ++out_;
  told |= ++untold_ >= told_of_one_in;
  part = {reinterpret_cast<std::uintptr_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()), region_->lkey};
  request = {};
  request.wr_id = Ticket{peer_, Ticket::What::sent, static_cast<std::uint8_t>(untold_)}.id();
  request.sg_list = &part;
  request.num_sge = bytes.empty() ? 0 : 1;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(credit);
  if (!bytes.empty() && bytes.size() <= inline_bytes_) request.send_flags = IBV_SEND_INLINE;
  if (told) {
    request.send_flags |= IBV_SEND_SIGNALED;
    untold_ = 0;
  }
  if (prepared_ > 0) requests_[prepared_ - 1].next = &request;
  if (++prepared_ == requests_.size()) post();
}

void Pair::post() noexcept {
  if (std::exchange(prepared_, 0) == 0) return;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(pair_.get(), requests_.data(), &refused)) this->refused(error, "to send");
}

void Pair::return_credit() noexcept {
  if (!credit_.owes() || !connected_ || broken_ || out_ >= most_out - 1) return;
  prepare({}, credit_.take_owed(), false);
  post();
}

void Pair::sent(int messages) noexcept {
  out_ -= messages;
  return_credit();
}

void Pair::finish() noexcept {
  if (untold_ == 0 || !connected_ || broken_) return;
  prepare({}, credit_.take_owed(), true);
  post();
}

// ---- receiving ----

void Pair::offer(std::span<const std::uint8_t> slots) noexcept {
  std::array<ibv_sge, offered_at_once> parts;
  std::array<ibv_recv_wr, offered_at_once> requests;
  ibv_recv_wr* refused = nullptr;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    parts[i] = {reinterpret_cast<std::uintptr_t>(in_slot(slots[i])), slot_bytes, region_->lkey};
    requests[i] = {Ticket{peer_, Ticket::What::received, slots[i]}.id(), nullptr, &parts[i], 1};
    if (i > 0) requests[i - 1].next = &requests[i];
  }
  if (const int error = ibv_post_recv(pair_.get(), requests.data(), &refused)) this->refused(error, "to receive");
}

void Pair::refused(int error, const char* what) noexcept {
  broken_ = true;
  adapter_.refused(error, what);
}

bool Pair::received(std::uint8_t slot, std::size_t bytes, std::uint32_t credit) noexcept {
  if (!credit_.give(credit)) return false;
  if (bytes == 0) {
    offer({&slot, 1});
    return true;
  }
  if (!credit_.arrived()) return false;
  arrivals_[static_cast<std::size_t>((first_ + waiting_++) % in_slots)] = {slot, static_cast<std::uint32_t>(bytes)};
  return true;
}

ConstBytes Pair::front() const noexcept {
  if (waiting_ == 0) return {};
  const Arrival& arrival = arrivals_[static_cast<std::size_t>(first_)];
  return ConstBytes(in_slot(arrival.slot), arrival.bytes).subspan(read_);
}

void Pair::consume(std::size_t bytes) noexcept {
  read_ += bytes;
  const Arrival arrival = arrivals_[static_cast<std::size_t>(first_)];
  if (waiting_ == 0 || read_ < arrival.bytes) return;
  first_ = (first_ + 1) % in_slots;
  --waiting_;
  read_ = 0;
  free_[freed_++] = arrival.slot;
  if (freed_ < free_.size()) return;
  freed_ = 0;
  offer(free_);
  credit_.read(offered_at_once);
  return_credit();
}

std::string Pair::text() const { return own_.text() + " to " + its_.text(); }

}  // namespace tutti::ibverbs
