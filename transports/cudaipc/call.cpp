#include "transports/cudaipc/call.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "transports/core/layout.hpp"

namespace tutti::cudaipc {

IpcCall::IpcCall(Room& room, const Call& call)
    : room_(room), made_by_(call), call_(call.what), part_(part_of(call.what, room.rank(), room.size())) {
  // If blocks differ by rank, each has its own area of a slot; otherwise all ranks read the whole slot.
  area_ = (blocks_apart() ? Room::slot_bytes / part_.size : Room::slot_bytes) / 256 * 256;
  done_ = Owned<Event>(room.accelerator(), room.accelerator().make_event(room.device()));
}

std::byte* IpcCall::own_input() const noexcept {
  return call_.kind == Kind::broadcast ? call_.out.data : const_cast<std::byte*>(call_.in.data);
}

bool IpcCall::blocks_apart() const noexcept { return has_blocks_in(call_.kind); }

bool IpcCall::little() const noexcept { return common_bytes(call_, room_.size()) <= std::min(little_bytes, area_); }

bool IpcCall::may_be_read_in_place() const {
  return !(part_.folds && call_.op.op == Op::premul_sum) && !overwrites_input(call_);
}

bool IpcCall::in_parts() const noexcept { return call_.kind == Kind::allreduce && bytes_of(0) > little_bytes; }

// The host waits for the caller's stream. If this rank's stream waited instead, it would delay work for other ranks,
// and streams that are held until that work is done.
void IpcCall::begin() { step_ = Step::caller; }

bool IpcCall::advance() {
  Accelerator& accelerator = room_.accelerator();
  switch (step_) {
    case Step::caller:
      if (made_by_.after.handle != nullptr && !accelerator.query(made_by_.after)) return false;
      first();
      return true;
    case Step::device:
      if (!accelerator.query(*done_)) return false;
      send_news();
      return true;
    case Step::others:
      if (const Status& failure = messages_->failure(); !failure.ok())
        throw Error(failure.cause(), std::string(failure.text()));
      if (!messages_->all_here()) return false;
      heard();
      return true;
    case Step::opening:
      if (!open_all()) return false;
      main_part();
      return true;
    default: return false;
  }
}

void IpcCall::first() {
  if (little()) return begin_slice();
  make_offer();
  tell(News::offer);
}

void IpcCall::make_offer() {
  direct_ = may_be_read_in_place();
  try {
    if (direct_ && part_.largest > 0) in_ = room_.shared().of(own_input());
    if (direct_ && in_parts()) out_ = room_.shared().of(call_.out.data);
  } catch (const Error&) {  // e.g. memory of a pool cannot be exported: all ranks use the slots
    direct_ = false;
  }
}

IpcCall::Offer IpcCall::offer_to(int peer) const {
  Offer offer;
  offer.in = in_;
  offer.out = out_;
  offer.at = part_.shown_at[static_cast<std::size_t>(peer)];
  offer.largest = part_.largest;
  offer.direct = direct_ ? 1 : 0;
  return offer;
}

// ---- messages between ranks ---------------------------------------------------------------------

// Sends `news` once the work enqueued on the stream so far is done.
void IpcCall::tell(News news) {
  news_ = news;
  room_.accelerator().record(*done_, room_.stream());
  step_ = Step::device;
}

// Only an offer has contents; the other messages say that something is done.
void IpcCall::send_news() {
  const bool offers = news_ == News::offer;
  messages_.emplace(room_.wire(), room_.group(), offers ? sizeof(Offer) : 1);
  for (int peer = 0; offers && peer < room_.size(); ++peer) {
    static_assert(std::is_trivially_copyable_v<Offer>);
    const Offer offer = offer_to(peer);
    std::memcpy(messages_->to(peer), &offer, sizeof offer);
  }
  lent_ |= offers && direct_ && in_parts();
  if (!offers) mapped_.clear();  // first: a rank that gets this message may free its memory
  messages_->exchange(made_by_.sequence, lane_++, made_by_.summary.bits);
  step_ = Step::others;
}

void IpcCall::heard() {
  switch (news_) {
    case News::offer: return offered();
    case News::there: return main_part();
    case News::half: return direct_ ? end_call() : second_half();
    case News::read: return end_call();
  }
}

// ---- addresses ----------------------------------------------------------------------------------

void IpcCall::offered() {
  offers_.resize(part_.size);
  for (std::size_t rank = 0; rank < part_.size; ++rank)
    if (rank == part_.rank)
      offers_[rank] = offer_to(room_.rank());
    else
      std::memcpy(&offers_[rank], messages_->from(static_cast<int>(rank)), sizeof(Offer));
  direct_ = std::ranges::all_of(offers_, [](const Offer& one) { return one.direct == 1; });
  lent_ &= direct_;
  if (direct_) {
    step_ = Step::opening;
    return;
  }
  std::size_t largest = 0;
  for (const Offer& one : offers_) largest = std::max<std::size_t>(largest, one.largest);
  slices_ = std::max<std::size_t>(1, (largest + area_ - 1) / area_);
  begin_slice();
}

// Returns null if the memory cannot be opened yet.
std::byte* IpcCall::opened(std::size_t rank, const Reference& place) {
  auto mapping = room_.opened(static_cast<int>(rank), place);
  if (!mapping) return nullptr;
  return mapped_.emplace_back(std::move(mapping))->at(place);
}

// Returns false if some memory cannot be opened yet; call it again later.
bool IpcCall::open_all() {
  mapped_.clear();
  piece_.sources.assign(part_.size, nullptr);
  piece_.results.assign(part_.size, nullptr);
  for (std::size_t rank = 0; rank < part_.size; ++rank) {
    const Offer& offer = offers_[rank];
    if (rank == part_.rank) {
      piece_.sources[rank] = own_input() + part_.shown_at[rank];
      piece_.results[rank] = call_.out.data;
      continue;
    }
    if (part_.read[rank] > 0) {
      std::byte* const input = opened(rank, offer.in);
      if (input == nullptr) return false;
      piece_.sources[rank] = input + offer.at;
    }
    if (in_parts() && (piece_.results[rank] = opened(rank, offer.out)) == nullptr) return false;
  }
  piece_.own_result = call_.out.data;
  return true;
}

void IpcCall::begin_slice() {
  piece_.slot = room_.next_slot();
  piece_.at = slice_ * area_;
  piece_.most = area_;
  piece_.sources.assign(part_.size, nullptr);
  piece_.results.assign(part_.size, nullptr);
  for (std::size_t rank = 0; rank < part_.size; ++rank) {
    std::byte* const slot = room_.slot(static_cast<int>(rank), piece_.slot);
    piece_.sources[rank] = slot + (blocks_apart() ? part_.rank * area_ : 0);
    piece_.results[rank] = slot;
  }
  piece_.own_result = call_.out.data == nullptr ? nullptr : call_.out.data + piece_.at;
  if (in_parts()) piece_.own_result = room_.slot(room_.rank(), piece_.slot);
  stage();
  tell(News::there);
}

// Copies what other ranks read of this piece to the slot, scaled if the operator is premul_sum.
void IpcCall::stage() {
  std::byte* const slot = room_.slot(room_.rank(), piece_.slot);
  for (std::size_t rank = 0; rank < part_.size; ++rank) {
    const std::size_t whole = part_.shown[rank], at = std::min(whole, piece_.at);
    const std::size_t bytes = std::min(whole - at, piece_.most);
    if (bytes == 0) continue;
    std::byte* const into = slot + (blocks_apart() ? rank * area_ : 0);
    const std::byte* const from = own_input() + part_.shown_at[rank] + at;
    if (part_.folds && call_.op.op == Op::premul_sum)
      room_.accelerator().scale(room_.stream(), call_.in.dtype, {into, bytes}, from, call_.op.factor);
    else
      copy(into, from, bytes);
    if (!blocks_apart()) break;  // all ranks read the same data
  }
}

// ---- copies and folds ---------------------------------------------------------------------------

// The number of bytes of a block that are in this piece.
std::size_t IpcCall::bytes_of(std::size_t block) const noexcept {
  const std::size_t whole = part_.read[block];
  return std::min(whole - std::min(whole, piece_.at), piece_.most);
}

Fold IpcCall::fold() const noexcept {
  const Op op = call_.op.op;
  return {call_.in.dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op,
          op == Op::avg ? static_cast<double>(part_.size) : 1.0};
}

void IpcCall::copy(std::byte* into, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && into != from) room_.accelerator().copy(room_.stream(), into, from, bytes);
}

// Folds in rank order, so that all ranks and both paths give the same bits.
void IpcCall::fold_into(std::vector<std::byte*> places, std::size_t from, std::size_t bytes) {
  if (bytes == 0) return;
  std::vector<const std::byte*> sources;
  for (const std::byte* one : piece_.sources) sources.push_back(one + from);
  for (std::byte*& one : places) one += from;
  room_.accelerator().fold(room_.stream(), fold(), places, sources, bytes);
}

void IpcCall::main_part() {
  if (in_parts()) {
    const Range own = even_part(bytes_of(0), part_.size, part_.rank);
    fold_into(direct_ ? piece_.results : std::vector{piece_.own_result}, own.begin, own.end - own.begin);
    return tell(News::half);
  }
  if (part_.folds && part_.keeps) {
    fold_into({piece_.own_result}, 0, bytes_of(0));
  } else if (part_.keeps) {
    for (std::size_t rank = 0; rank < part_.size; ++rank) {
      const std::size_t bytes = bytes_of(rank);
      if (bytes > 0) copy(call_.out.data + part_.read_into[rank] + piece_.at, piece_.sources[rank], bytes);
    }
  }
  end_slice();
}

void IpcCall::second_half() {
  const std::size_t bytes = bytes_of(0);
  for (std::size_t rank = 0; rank < part_.size; ++rank) {
    const Range other = even_part(bytes, part_.size, rank);
    std::byte* const into = call_.out.data + piece_.at + other.begin;
    const std::byte* const from = rank == part_.rank ? piece_.own_result : piece_.results[rank];
    copy(into, from + other.begin, other.end - other.begin);
  }
  end_slice();
}

// Other ranks may read a slot after the call has ended (see Room), but the caller's memory only until then. So a call
// that reads callers' memory directly ends with one more message.
void IpcCall::end_slice() {
  if (direct_) return tell(News::read);
  if (++slice_ < slices_) return begin_slice();
  end_call();
}

void IpcCall::end_call() {
  messages_.reset();
  step_ = Step::over;
}

std::string IpcCall::where() const {
  switch (step_) {
    case Step::idle: return "waits for the calls before it";
    case Step::caller: return "waits for what the caller's stream had before";
    case Step::over: return "is on the stream";
    case Step::opening: return "waits until other memory of its peers is closed, which was at the same addresses";
    case Step::device: return "waits for its own device";
    default: break;
  }
  if (news_ == News::offer) return "waits for what the other ranks offer";
  return "waits for the other ranks in piece " + std::to_string(slice_ + 1) + " of " + std::to_string(slices_) +
         (direct_ ? ", direct" : ", by the slots");
}

}  // namespace tutti::cudaipc
