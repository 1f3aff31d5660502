// Fills and checks the buffers, and computes the figures of many iterations.
#include "tools/bench/trials.hpp"

#include <algorithm>

namespace tutti::bench {

Trials::Trials(Implementation& implementation, Board& board, const Sweep& sweep, const Case& what, Buffers buffers,
               unsigned& epoch)
    : implementation_(implementation),
      board_(board),
      sweep_(sweep),
      what_(what),
      buffers_(buffers),
      epoch_(epoch),
      pattern_(what, implementation.rank()),
      operands_(bench::operands(what, implementation.rank(), buffers.in, buffers.out)),
      touch_(sweep.touch) {
  pattern_.fill(what_, buffers_.in, buffers_.out, epoch_);
  implementation_.written();
}

void Trials::prepare() {
  if (!touch_) return;
  pattern_.fill(what_, buffers_.in, buffers_.out, ++epoch_);
  implementation_.written();
}

void Trials::look() {
  if (!touch_ || !sweep_.check) return;
  implementation_.looked_at();
  wrong_ += pattern_.wrong(what_, buffers_.in, buffers_.out, epoch_);
}

std::vector<Stamp> Trials::calls(int count) {
  std::vector<Stamp> stamps;
  for (int i = 0; i < count; ++i)
    stamps.push_back(once([this] { implementation_.run(what_, operands_.in, operands_.out); }));
  return stamps;
}

std::vector<double> Trials::seconds(const std::vector<Stamp>& stamps) {
  std::vector<double> seconds = board_.durations(stamps);
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

int Trials::iterations(double seconds) {
  const bool asked = sweep_.seconds > 0;
  const double fit = (asked ? sweep_.seconds : 0.1) / std::max(seconds, 1e-7);
  const int by_time = static_cast<int>(std::clamp(fit, asked ? 1.0 : 20.0, 2000.0));
  const int wanted = sweep_.iterations > 0 ? sweep_.iterations : by_time;
  return static_cast<int>(board_.from_first(std::min<std::int64_t>(wanted, max_iterations)));
}

Result Trials::result(const std::vector<double>& seconds) {
  Result result;
  result.min = seconds.front();
  result.median = seconds[seconds.size() / 2];
  result.p99 = seconds[std::min(seconds.size() - 1, seconds.size() * 99 / 100)];
  result.iterations = static_cast<int>(seconds.size());
  result.wrong = board_.sum(wrong_);
  return result;
}

void Trials::check_once() {
  if (sweep_.touch || !sweep_.check) return;
  touch_ = true;
  calls(1);
  touch_ = false;
}

}  // namespace tutti::bench
