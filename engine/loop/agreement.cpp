#include "engine/loop/agreement.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {
namespace {

constexpr double interval = 0.2;                // seconds from one allreduce to the next
constexpr std::size_t most_meetings = 1 << 20;  // from one allreduce to the next

}  // namespace

Wish Agreement::meet(Wish mine) {
  mine_ = std::max(mine_, mine);
  heard_ = false;
  Wish found = Wish::nothing;
  if (world_.size() == 1) {
    const Deadline now = Clock::now();
    heard_ = mine_ != Wish::nothing || Seconds(now - began_).count() >= interval;
    if (heard_) began_ = now;
    return std::exchange(mine_, Wish::nothing);
  }
  ++meetings_;
  if (under_way_) {
    end();
    heard_ = true;
    found = static_cast<Wish>(static_cast<int>(shared_[0]));
    const double meetings = interval / std::max(shared_[1], interval / most_meetings);
    wanted_ = static_cast<std::size_t>(std::max(meetings, 1.0));
  }
  if (meetings_ >= wanted_) start();
  return found;
}

/// The slowest rank's time decides when ranks hear of each other again.
void Agreement::start() {
  const Deadline now = Clock::now();
  shared_ = {static_cast<double>(mine_), Seconds(now - began_).count() / static_cast<double>(meetings_)};
  mine_ = Wish::nothing;
  began_ = now;
  meetings_ = 0;
  pending_ = world_.allreduce(shared_, max);
  under_way_ = true;
}

void Agreement::end() {
  if (!under_way_) return;
  pending_.wait();
  pending_ = {};
  under_way_ = false;
}

}  // namespace tutti::engine
