#include "transports/nccl/order.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti::nccl {
namespace {

// Values of Tag::lane for these messages; no collective has so many lanes.
constexpr std::uint32_t proposal_lane = 0xffffff01u, outcome_lane = 0xffffff02u;

template <class T>
ConstBytes seen(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}
template <class T>
Bytes written(T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof value};
}

}  // namespace

class LaunchOrder::Place {
 public:
  explicit Place(OrderedCall ordered)
      : call(std::move(ordered)), group(call.group->id), leads(call.group->rank == 0), members(call.group->members) {}

  Key key() const { return {time, group, call.sequence}; }
  Tag tag(std::uint32_t lane) const { return {group, call.sequence, lane}; }

  OrderedCall call;
  const std::uint64_t group;
  const bool leads;
  const std::vector<int> members;  // world ranks
  Time time = 0;                   // the proposed time, then the agreed one
  std::vector<Time> votes;         // at the first rank: proposals of the other ranks
  std::size_t missing = 0;
  Time outcome = 0;
  bool proposed = false, settled = false, begun = false, launched = false, over = false, failed = false;
};

std::shared_ptr<LaunchOrder> LaunchOrder::of(Transport& wire) {
  static std::mutex mutex;
  static auto& all = *new std::map<Transport*, std::weak_ptr<LaunchOrder>>;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<LaunchOrder> order = all[&wire].lock();
  if (!order) all[&wire] = order = std::make_shared<LaunchOrder>(wire);
  return order;
}

LaunchOrder::Shared LaunchOrder::join(OrderedCall call) {
  auto place = std::make_shared<Place>(std::move(call));
  // A new proposal has to be later than the agreed times of calls launched early, so those must be known first.
  if (!waiting_.empty() || (early_ > 0 && communicators_ > 1))
    waiting_.push_back(place);
  else
    propose(place);
  return place;
}

bool LaunchOrder::has_turn(const Place& place) const {
  if (place.failed) return false;
  return communicators_ == 1 || (place.settled && *unlaunched_.begin() == place.key());
}

void LaunchOrder::begun(Place& place) {
  place.begun = true;
  // a call without a proposal is in waiting_; propose() counts it
  if (place.proposed && !place.settled) ++early_;
}

void LaunchOrder::launched(Place& place) {
  place.launched = true;
  if (place.proposed) unlaunched_.erase(place.key());
}

void LaunchOrder::leave(Place& place) {
  place.over = true;
  if (place.proposed && !place.launched) unlaunched_.erase(place.key());
  place.call.group = nullptr;
  place.call.trouble = nullptr;
}

void LaunchOrder::propose(const Shared& place) {
  place->proposed = true;
  place->time = ++clock_;
  if (place->begun) ++early_;
  if (!place->launched && !place->over) unlaunched_.insert(place->key());
  if (place->leads)
    collect(place);
  else
    submit(place);
}

void LaunchOrder::collect(const Shared& place) {
  place->missing = place->members.size() - 1;
  place->votes.resize(place->missing);
  for (std::size_t i = 0; i < place->votes.size(); ++i)
    wire_.recv(place->members[i + 1], place->tag(proposal_lane), place->call.signature, written(place->votes[i]),
               [self = shared_from_this(), place](const Status& status) {
                 if (!status.ok()) return self->fail(*place, status);
                 if (--place->missing > 0 || place->failed) return;
                 const Time latest = std::max(place->time, *std::ranges::max_element(place->votes));
                 self->announce(place, latest);
                 self->settle(*place, latest);
               });
}

void LaunchOrder::announce(const Shared& place, Time time) {
  place->outcome = time;
  for (std::size_t i = 1; i < place->members.size(); ++i)
    wire_.send(place->members[i], place->tag(outcome_lane), place->call.signature, seen(place->outcome),
               [self = shared_from_this(), place](const Status& status) {
                 // A rank that has proposed a time and left needs no outcome. If it died, the transport reports that.
                 if (!status.ok() && status.code() != Code::peer_lost) self->fail(*place, status);
               });
}

void LaunchOrder::submit(const Shared& place) {
  place->votes = {place->time};
  wire_.recv(place->members[0], place->tag(outcome_lane), place->call.signature, written(place->outcome),
             [self = shared_from_this(), place](const Status& status) {
               if (status.ok())
                 self->settle(*place, place->outcome);
               else
                 self->fail(*place, status);
             });
  wire_.send(place->members[0], place->tag(proposal_lane), place->call.signature, seen(place->votes[0]),
             [self = shared_from_this(), place](const Status& status) {
               if (!status.ok()) self->fail(*place, status);
             });
}

void LaunchOrder::settle(Place& place, Time time) {
  if (place.settled) return;
  clock_ = std::max(clock_, time);
  const bool pending = unlaunched_.erase(place.key()) > 0;
  place.time = time;
  place.settled = true;
  if (pending) unlaunched_.insert(place.key());
  if (place.begun) --early_;
  while (early_ == 0 && !waiting_.empty()) {
    const Shared next = std::move(waiting_.front());
    waiting_.pop_front();
    propose(next);
  }
}

void LaunchOrder::fail(Place& place, const Status& why) {
  place.failed = true;
  if (!place.over && place.call.trouble) place.call.trouble(why);
  settle(place, place.time);
}

}  // namespace tutti::nccl
