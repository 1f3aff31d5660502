#include "engine/loop/agreement.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {
namespace {

constexpr double soon = 0.2, late = 5;  // seconds from one allreduce to the next

/// How many calls of meet() are in `interval` if they are `one` apart; both in seconds.
std::size_t meetings_in(double interval, double one) {
  constexpr double most = 1 << 20;
  return static_cast<std::size_t>(std::clamp(interval / std::max(one, interval / most), 1.0, most));
}

}  // namespace

Wish Agreement::meet(Wish mine, bool exchanged) {
  mine_ = std::max(mine_, mine);
  heard_ = false;
  Wish found = Wish::nothing;
  if (world_.size() == 1) {
    const Deadline now = Clock::now();
    heard_ = mine_ != Wish::nothing || Seconds(now - began_).count() >= soon;
    if (heard_) began_ = now;
    return std::exchange(mine_, Wish::nothing);
  }
  ++meetings_;
  if (under_way_ && (exchanged || meetings_ >= late_)) {
    end();
    heard_ = true;
    found = static_cast<Wish>(static_cast<int>(shared_[0]));
    soon_ = meetings_in(soon, shared_[1]);
    late_ = meetings_in(late, shared_[1]);
  }
  if (!under_way_ && meetings_ >= (exchanged ? soon_ : late_)) start();
  return found;
}

/// The allreduce takes the maximum: the slowest rank's time per step determines when the next one starts.
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
