#include "engine/report/step_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace tutti::engine {
namespace {

constexpr double second = 1e9;

}  // namespace

std::vector<PairWait> worst(std::vector<PairWait> waits) {
  std::ranges::sort(waits, [](const PairWait& a, const PairWait& b) {
    return std::tuple(-a.seconds, a.late, a.waiting) < std::tuple(-b.seconds, b.late, b.waiting);
  });
  waits.resize(std::min(waits.size(), most_named));
  return waits;
}

std::vector<PairWait> worst_of_all(Communicator& world, std::vector<PairWait> mine) {
  static_assert(sizeof(PairWait) == 16);
  constexpr PairWait none{-1, -1, 0};
  const Tree tree{world.size()};
  const int rank = world.rank();
  const auto bytes = [](std::vector<PairWait>& list) {
    return std::span(reinterpret_cast<std::uint8_t*>(list.data()), list.size() * sizeof(PairWait));
  };
  mine = worst(std::move(mine));
  for (int round = tree.rounds() - 1; round >= 0; --round) {
    if (const int child = tree.child(rank, round); child >= 0) {
      std::vector<PairWait> theirs(most_named);
      world.recv(bytes(theirs), child).wait();
      std::erase(theirs, none);
      mine.insert(mine.end(), theirs.begin(), theirs.end());
      mine = worst(std::move(mine));
    } else if (round == Tree::round_of(rank)) {
      mine.resize(most_named, none);
      world.send(bytes(mine), Tree::parent(rank)).wait();
    }
  }
  return rank == 0 ? mine : std::vector<PairWait>();
}

std::vector<WaitedFor> most_waited_for(std::vector<WaitedFor> all) {
  std::ranges::stable_sort(all, {}, &WaitedFor::rank);
  std::ranges::stable_sort(all, std::ranges::greater(), &WaitedFor::seconds);
  all.resize(std::min(all.size(), most_named));
  std::ranges::sort(all, {}, &WaitedFor::rank);
  return all;
}

WaitRow book(Communicator& world, std::span<const Arrival> mine) {
  constexpr std::size_t most = 1024;
  WaitRow row;
  for (; !mine.empty(); mine = mine.subspan(std::min(most, mine.size()))) {
    const std::span<const Arrival> some = mine.first(std::min(most, mine.size()));
    std::vector<std::int64_t> last;
    for (const Arrival& each : some) last.push_back(each.came);
    world.allreduce(last, max).wait();
    std::vector<std::int32_t> late;
    for (std::size_t i = 0; i < some.size(); ++i)
      late.push_back(some[i].came == last[i] ? world.rank() : std::numeric_limits<std::int32_t>::max());
    world.allreduce(late, min).wait();
    for (std::size_t i = 0; i < some.size(); ++i)
      row[late[i]] += static_cast<double>(std::min(last[i] - some[i].came, some[i].blocked)) / second;
  }
  return row;
}

StepTimes::StepTimes(PhaseClock clock, std::size_t traced) : clock_(std::move(clock)), trace_(traced) {
  if (traced > 0) clock_.listen([this](Phase phase, Nanoseconds begin, Nanoseconds end) { keep(phase, begin, end); });
}

void StepTimes::keep(Phase phase, Nanoseconds begin, Nanoseconds end) {
  using enum Trace::Kind;
  switch (phase) {
    case Phase::compute: return trace_.add(exchanged_ ? update : forward_backward, begin, end);
    case Phase::exchange: return trace_.add(exposed, begin, end);
    case Phase::load: return trace_.add(load, begin, end);
    case Phase::other: return trace_.add(other, begin, end);
  }
}

void StepTimes::synchronize(Communicator& world) {
  if (is_compared_ && !drifts_) return;
  if (!is_compared_) drifts_ = world.topology().hosts().count() > 1;
  is_compared_ = true;
  offset_ = compare_clocks(world, [this] { return clock_.now(); });
}

void StepTimes::start() {
  arrivals_.clear();
  clock_.start(Phase::other);
}

void StepTimes::begin_step() {
  clock_.enter(Phase::load);
  step_began_ = clock_.began();
  exchanged_ = false;
}

void StepTimes::end_step() {
  clock_.enter(Phase::other);
  trace_.end_step(step_began_, clock_.began());
}

void StepTimes::exchanged(double blocked, double whole) {
  clock_.enter(Phase::exchange, std::llround(blocked * second));
  const Nanoseconds came = clock_.began();
  clock_.enter(Phase::compute);
  exchanged_ = true;
  trace_.add(Trace::Kind::exchange, std::max<Nanoseconds>(step_began_, clock_.began() - std::llround(whole * second)),
             clock_.began());
  arrivals_.push_back({.came = came, .blocked = clock_.began() - came});
}

WaitRow StepTimes::book_all(Communicator& world) const {
  std::vector<std::int64_t> counts{static_cast<std::int64_t>(arrivals_.size()),
                                   -static_cast<std::int64_t>(arrivals_.size())};
  world.allreduce(counts, max).wait();
  if (counts[0] != -counts[1]) return {};  // the ranks exchange independently, without common exchanges
  std::vector<Arrival> mine = arrivals_;
  for (Arrival& each : mine) each.came -= offset_.ahead;
  return book(world, mine);
}

namespace {

/// Computes how long the others waited for each rank; returns the most_named largest, in rank order. Collective.
std::vector<WaitedFor> waited_for_of(Communicator& world, const WaitRow& row) {
  std::vector<double> sums;
  for (const auto& [late, seconds] : row) sums.push_back(seconds);
  if (!sums.empty()) world.allreduce(sums, sum).wait();
  std::vector<WaitedFor> found;
  for (auto each = row.begin(); each != row.end(); ++each)
    found.push_back({each->first, sums[found.size()] / static_cast<double>(world.size())});
  if (static_cast<std::size_t>(world.size()) <= most_named)
    for (int rank = 0; rank < world.size(); ++rank)
      if (!row.contains(rank)) found.push_back({rank, 0});
  return most_waited_for(std::move(found));
}

}  // namespace

EpochTimes StepTimes::gather(Communicator& world) {
  const WaitRow row = book_all(world);
  std::vector<double> sums;
  for (const Phase phase : {Phase::compute, Phase::exchange, Phase::load, Phase::other})
    sums.push_back(static_cast<double>(clock_.spent(phase)) / second);
  double waited = 0;
  for (const auto& [late, seconds] : row) waited += seconds;
  sums.push_back(waited);
  world.allreduce(sums, avg).wait();
  std::vector<PairWait> pairs;
  for (const auto& [late, seconds] : row)
    if (seconds > 0) pairs.push_back({late, world.rank(), seconds});
  return {.mean = {.compute = sums[0],
                   .communication = std::max(0.0, sums[1] - sums[4]),
                   .waiting = sums[4],
                   .load = sums[2],
                   .other = sums[3]},
          .waited_for = waited_for_of(world, row),
          .pairs = worst_of_all(world, std::move(pairs))};
}

}  // namespace tutti::engine
