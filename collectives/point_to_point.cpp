#include "collectives/point_to_point.hpp"

#include "collectives/context.hpp"

namespace tutti {
namespace {

// Each half carries the summary of its own buffer, so that counts may differ between the halves.
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
  const Signature summary{half_signature(call.to >= 0 ? call.in : ConstBuffer(call.out))};
  Operation::prepare(std::move(home), summary, parts.allowed, false, parts.exchanges != nullptr);
  spare_ = &spare;
  exchanges_ = parts.exchanges;
  call_ = call;
  failure_ = {};
}

void PointToPoint::retire() noexcept {
  const std::shared_ptr<Driver> keeper = take_driver();  // goes last
  copy_ = {};
  spare_->give(this);
}

void PointToPoint::begin() {
  const Group& group = this->group().group();
  const Tag tag{group.id, static_cast<std::uint32_t>(call_.tag),
                exchanges_ == nullptr ? point_to_point_lane : device_lane};
  if (exchanges_ != nullptr) return begin_on_device(tag);
  const auto world = [&](int rank) { return group.members[static_cast<std::size_t>(rank)]; };
  const bool check = context().checks_messages();
  const auto summary = [&](const ConstBuffer& buffer) { return check ? half_signature(buffer) : 0; };
  const auto done = [this](const Status& status) { half_done(status); };
  open_ = 1 + (call_.to >= 0) + (call_.from >= 0);
  if (call_.to >= 0) {
    ConstBytes data = call_.in.view();
    if (call_.from >= 0 && overlap(call_.in, call_.out)) {
      copy_.assign(data.begin(), data.end());
      data = copy_;
    }
    context().wire().send(world(call_.to), tag, summary(call_.in), data, done);
  }
  if (call_.from >= 0) context().wire().recv(world(call_.from), tag, summary(call_.out), call_.out.view(), done);
  half_done({});
}

void PointToPoint::begin_on_device(const Tag& tag) {
  const bool check = context().checks_messages();
  exchanges_->start(call_, {tag, check ? half_signature(call_.in) : 0}, {tag, check ? half_signature(call_.out) : 0},
                    ready(), *this);
}

// What the transport has of it has ended by now.
void PointToPoint::cancel(const Status& why) noexcept {
  if (exchanges_ != nullptr) exchanges_->cancel(why);
}

bool PointToPoint::look() {
  const bool moved = Operation::look();
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
  const auto world = [&](int rank) { return std::to_string(group().group().members[static_cast<std::size_t>(rank)]); };
  if (call_.to >= 0) text = "send to world rank " + world(call_.to);
  if (call_.from >= 0) text += (text.empty() ? "recv from world rank " : ", recv from world rank ") + world(call_.from);
  return text + " with tag " + std::to_string(call_.tag) + " has not ended: does that rank make the counterpart" +
         (exchanges_ != nullptr ? ", with device memory too, and is the device done with what came before?" : "?");
}

}  // namespace tutti
