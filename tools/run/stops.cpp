#include "tools/run/stops.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace tutti::tools {
namespace {

constexpr Seconds told_after(2);

const char* advice(int signal, bool others_run) {
  if (signal == SIGTTIN)
    return "it reads from the terminal, which is the launcher's; let it read its stdin as rank 0, or a file";
  if (signal == SIGTTOU)
    return "it changes the terminal's settings, and the terminal is the launcher's; have it not do so";
  return others_run ? "the others wait for it; `kill -CONT` with its pid lets it go on"
                    : "`kill -CONT` with its pid lets it go on";
}

}  // namespace

void Stops::stopped(int rank, int signal) { since_[rank] = {signal, deadline_in(told_after)}; }

void Stops::sent(int signal) {
  if (signal == SIGTSTP) asked_for_ = true;
  if (signal != SIGCONT) return;
  asked_for_ = false;
  since_.clear();
}

std::vector<Stopped> Stops::take_long() {
  std::vector<Stopped> found;
  if (asked_for_) return found;
  const Deadline now = Clock::now();
  for (auto& [rank, stop] : since_)
    if (stop.told_at <= now) {
      found.push_back({rank, stop.signal});
      stop.told_at = never;
    }
  return found;
}

Deadline Stops::next_look() const {
  Deadline first = never;
  if (!asked_for_)
    for (const auto& [rank, stop] : since_) first = std::min(first, stop.told_at);
  return first;
}

void say_stopped(Sink& sink, int rank, const std::string& whereabouts, int signal, bool others_run) {
  const char* const name = sigabbrev_np(signal);
  sink.put(fmt::format("tutti run: rank {} ({}) is stopped by {}: {}\n", rank, whereabouts,
                       name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal),
                       advice(signal, others_run)));
}

}  // namespace tutti::tools
