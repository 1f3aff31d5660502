#include "collectives/runtime/point_to_point.hpp"

#include <cstring>
#include <utility>

#include "collectives/runtime/context.hpp"

namespace tutti {
namespace {

// Send and receive have separate signatures, so that their counts may differ.
std::uint64_t half_signature(const ConstBuffer& buffer) {
  Collective half;
  half.kind = Kind::send;
  half.in = buffer;
  half.out = Buffer(nullptr, buffer.count, buffer.dtype);
  return signature(half, 0, 1).bits;
}

bool overlap(const ConstBuffer& a, const ConstBuffer& b) noexcept {
  return a.bytes() > 0 && b.bytes() > 0 && a.data < b.data + b.bytes() && b.data < a.data + a.bytes();
}

}  // namespace

void PointToPoint::prepare(Home&& home, Spare& spare, const Parts& parts) {
  const Collective& call = parts.call;
  summary = {half_signature(call.to >= 0 ? call.in : ConstBuffer(call.out))};
  Operation::prepare(std::move(home), summary, parts.allowed, false, parts.exchanges != nullptr);
  spare_ = &spare;
  exchanges_ = parts.exchanges;
  what = call;
  label = parts.label;
  unmatched_ = false;
  failure_ = {};
}

void PointToPoint::retire() noexcept {
  const std::shared_ptr<Driver> keeper = take_driver();  // must be released last
  copy_ = {};
  spare_->give(this);
}

Tag PointToPoint::tag() const noexcept {
  return {group().group().id, static_cast<std::uint32_t>(what.tag),
          exchanges_ == nullptr ? point_to_point_lane : device_lane};
}

// The memory for the message. For a message of zero bytes it is an address that no other operation has, by which
// withdraw() tells such receives apart.
Bytes PointToPoint::landing() noexcept {
  return what.out.bytes() > 0 ? what.out.view() : Bytes(reinterpret_cast<std::byte*>(this), 0);
}

void PointToPoint::begin() {
  if (exchanges_ != nullptr) return begin_on_device(tag());
  open_ = 1 + (what.to >= 0) + (what.from >= 0 || what.from_any);
  if (what.to >= 0) {
    ConstBytes data = what.in.view();
    if (what.from >= 0 && overlap(what.in, what.out)) {
      copy_.assign(data.begin(), data.end());
      data = copy_;
    }
    const std::uint64_t carried = context().checks_messages() ? half_signature(what.in) : 0;
    context().wire().send(world(what.to), tag(), carried, data, [this](const Status& status) { half_done(status); });
  }
  if (what.from >= 0) receive(world(what.from));
  if (what.from_any) {
    unmatched_ = true;
    context().any_source().add(tag(), *this);
    context().any_source().progress();  // receives posted earlier match first
  }
  half_done({});
}

void PointToPoint::receive(int world) {
  const std::uint64_t carried = context().checks_messages() ? half_signature(what.out) : 0;
  context().wire().recv(world, tag(), carried, landing(), [this](const Status& status) {
    if (Record* const mine = record(); mine != nullptr && status.ok()) Recorder::arrived(*mine);
    half_done(status);
  });
}

// If a message has arrived, posts an ordinary receive from its sender.
bool PointToPoint::match() {
  const std::optional<Unmatched> found = context().wire().arrived(any_rank, tag());
  if (!found) return false;
  unmatched_ = false;
  const int from = group().group().rank_of(found->from);
  std::memcpy(cell(), &from, sizeof from);
  receive(found->from);
  return true;
}

bool PointToPoint::take_back() {
  if (what.to >= 0 || exchanges_ != nullptr) return false;
  bool taken = false;
  context().do_holding([&] { taken = withdraw(); });
  return taken;
}

bool PointToPoint::withdraw() {
  if (done()) return false;
  if (unmatched_) {
    context().any_source().drop(*this);
    unmatched_ = false;
  } else {
    const auto from = static_cast<std::size_t>(what.from);
    if (what.from_any || !context().wire().retract(group().group().members[from], tag(), landing().data()))
      return false;
  }
  finish_alone(Status::failure(Code::aborted, "it was taken back by cancel() before a message had come for it"));
  return true;
}

void PointToPoint::begin_on_device(const Tag& tag) {
  const bool check = context().checks_messages();
  after = ready();
  exchanges_->start(*this, {tag, check ? half_signature(what.in) : 0}, {tag, check ? half_signature(what.out) : 0});
}

// The transport has cancelled its sends and receives before this call.
void PointToPoint::cancel(const Status& why) noexcept {
  if (exchanges_ != nullptr) exchanges_->cancel(why);
  if (!std::exchange(unmatched_, false)) return;
  context().any_source().drop(*this);
  half_done(why);
}

int PointToPoint::world(int rank) const noexcept {
  return rank < 0 ? rank : group().group().members[static_cast<std::size_t>(rank)];
}

RecordEntry PointToPoint::entry(std::uint32_t /*number*/) const noexcept {
  constexpr int anyone = -2;
  const int from = what.from_any ? anyone : world(what.from);
  return {.what = Record::What::exchange,
          .call = summary.bits,
          .bytes = static_cast<std::uint32_t>(from),
          .sequence = static_cast<std::uint32_t>(what.tag),
          .peer = world(what.to)};
}

void PointToPoint::partners(std::vector<int>& ranks) const {
  if (what.to >= 0) ranks.push_back(world(what.to));
  if (what.from >= 0) ranks.push_back(world(what.from));
}

bool PointToPoint::look() {
  const bool moved = Operation::look();
  if (unmatched_) return context().any_source().progress() || moved;
  return exchanges_ != nullptr ? exchanges_->progress() || moved : moved;
}

void PointToPoint::half_done(const Status& status) {
  if (failure_.ok() && !status.ok()) {
    failure_ = status;
    in_trouble(status);
  }
  if (--open_ == 0) finish(failure_);
}

std::string PointToPoint::where() const {
  std::string text;
  if (what.to >= 0) text = "send to world rank " + std::to_string(world(what.to));
  if (what.from >= 0)
    text += (text.empty() ? "recv from world rank " : ", recv from world rank ") + std::to_string(world(what.from));
  if (what.from_any) text += text.empty() ? "recv from anyone" : ", recv from anyone";
  return text + " with tag " + std::to_string(what.tag) + " has not ended: does that rank make the counterpart" +
         (exchanges_ != nullptr ? ", with device memory too, and is the device done with what came before?" : "?");
}

}  // namespace tutti
