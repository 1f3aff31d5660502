// Fair sharing: n active flows have 1/n of the rate each, until the next message has left.
#include "transports/decorators/paced_link.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace tutti {
namespace {

LinkTime rounded_up(double nanoseconds) { return LinkTime(static_cast<LinkTime::rep>(std::ceil(nanoseconds))); }

}  // namespace

std::map<int, OutgoingLink::Flow>::iterator OutgoingLink::shortest() {
  return std::ranges::min_element(flows_, {}, [](const auto& entry) { return entry.second.front().bits; });
}

std::optional<LinkTime> OutgoingLink::next_departure() const {
  if (flows_.empty()) return std::nullopt;
  const auto least =
      std::ranges::min(flows_ | std::views::transform([](const auto& e) { return e.second.front().bits; }));
  return at_ + rounded_up(least * static_cast<double>(flows_.size()) / bits_per_nanosecond_);
}

void OutgoingLink::advance(LinkTime now) {
  while (!flows_.empty()) {
    const LinkTime end = *next_departure();
    const auto first = shortest();
    const double each = end <= now ? first->second.front().bits
                                   : static_cast<double>((now - at_).count()) * bits_per_nanosecond_ /
                                         static_cast<double>(flows_.size());
    for (auto& [peer, flow] : flows_) flow.front().bits = std::max(flow.front().bits - each, 0.0);
    if (end > now) break;
    gone_.push_back({first->second.front().id, end});
    first->second.pop_front();
    if (first->second.empty()) flows_.erase(first);
    at_ = end;
  }
  at_ = std::max(at_, now);
}

void OutgoingLink::push(int peer, std::uint64_t id, std::size_t bytes, LinkTime now) {
  advance(now);
  if (bits_per_nanosecond_ <= 0)
    gone_.push_back({id, now});
  else
    flows_[peer].push_back({id, 8.0 * static_cast<double>(bytes)});
}

std::vector<OutgoingLink::Departure> OutgoingLink::pop(LinkTime now) {
  advance(now);
  std::vector<Departure> left(gone_.begin(), gone_.end());
  gone_.clear();
  return left;
}

std::optional<LinkTime> OutgoingLink::next() const {
  return gone_.empty() ? next_departure() : std::optional(gone_.front().when);
}

void OutgoingLink::erase(const std::function<bool(std::uint64_t id)>& which, LinkTime now) {
  advance(now);
  std::erase_if(gone_, [&](const Departure& one) { return which(one.id); });
  for (auto& [peer, flow] : flows_) std::erase_if(flow, [&](const Message& one) { return which(one.id); });
  std::erase_if(flows_, [](const auto& entry) { return entry.second.empty(); });
}

LinkTime IncomingLink::take(std::size_t bytes, LinkTime now) {
  free_ = std::max(now, free_ + rounded_up(8.0 * static_cast<double>(bytes) * nanoseconds_per_bit_));
  return free_;
}

}  // namespace tutti
