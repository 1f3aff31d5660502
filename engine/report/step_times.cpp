#include "engine/report/step_times.hpp"

#include <algorithm>
#include <cmath>

namespace tutti::engine {
namespace {

constexpr double second = 1e9;

}  // namespace

double Waits::by(std::size_t waiting) const {
  double total = 0;
  for (std::size_t late = 0; late < ranks_; ++late) total += of(waiting, late);
  return total;
}

double Waits::for_rank(std::size_t late) const {
  double total = 0;
  for (std::size_t waiting = 0; waiting < ranks_; ++waiting) total += of(waiting, late);
  return total;
}

std::vector<double> Waits::mean_for_ranks() const {
  std::vector<double> means;
  for (std::size_t late = 0; late < ranks_; ++late) means.push_back(for_rank(late) / static_cast<double>(ranks_));
  return means;
}

void book(std::span<const Arrival> arrivals, Waits& into) {
  const auto last =
      std::ranges::max_element(arrivals, [](const Arrival& a, const Arrival& b) { return a.came < b.came; });
  const auto late = static_cast<std::size_t>(last - arrivals.begin());
  for (std::size_t rank = 0; rank < arrivals.size(); ++rank)
    into.add(rank, late,
             static_cast<double>(std::min(last->came - arrivals[rank].came, arrivals[rank].blocked)) / second);
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

/// In blocks of exchanges, which limits the memory for long epochs.
Waits StepTimes::book_all(Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  Waits waits(ranks);
  std::vector<std::int64_t> counts{static_cast<std::int64_t>(arrivals_.size()),
                                   -static_cast<std::int64_t>(arrivals_.size())};
  world.allreduce(counts, max).wait();
  if (counts[0] != -counts[1]) return waits;  // ranks exchange independently: there is no common exchange to wait in
  constexpr std::size_t most = 1024;
  for (std::size_t done = 0; done < arrivals_.size(); done += most) {
    const std::size_t steps = std::min(most, arrivals_.size() - done);
    std::vector<std::int64_t> mine, all(2 * steps * ranks);
    for (std::size_t i = done; i < done + steps; ++i)
      mine.insert(mine.end(), {arrivals_[i].came - offset_.ahead, arrivals_[i].blocked});
    world.allgather(mine, all).wait();
    std::vector<Arrival> step(ranks);
    for (std::size_t i = 0; i < steps; ++i) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t at = 2 * (rank * steps + i);
        step[rank] = {.came = all[at], .blocked = all[at + 1]};
      }
      book(step, waits);
    }
  }
  return waits;
}

EpochTimes StepTimes::gather(Communicator& world) {
  EpochTimes result{.mean = {}, .waits = book_all(world)};
  std::vector<double> sums;
  for (const Phase phase : {Phase::compute, Phase::exchange, Phase::load, Phase::other})
    sums.push_back(static_cast<double>(clock_.spent(phase)) / second);
  world.allreduce(sums, avg).wait();
  double waiting = 0;
  for (const double each : result.waits.mean_for_ranks()) waiting += each;
  result.mean = {.compute = sums[0],
                 .communication = std::max(0.0, sums[1] - waiting),
                 .waiting = waiting,
                 .load = sums[2],
                 .other = sums[3]};
  return result;
}

}  // namespace tutti::engine
