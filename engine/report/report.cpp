// Prints lines to stdout and a live line, which it overwrites, to stderr.
#include "engine/report/report.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace tutti::engine {

bool is_share(std::string_view name) noexcept { return name.ends_with("accuracy"); }

namespace {

std::string shown(const Metrics& metrics) {
  std::string all;
  for (const auto& [name, value] : metrics) {
    char text[32];
    std::snprintf(text, sizeof text, is_share(name) ? " %.2f %%" : " %.4g", is_share(name) ? 100 * value : value);
    all += "  " + name + text;
  }
  return all;
}

}  // namespace

Report::Report(std::string_view progress, bool silent)
    : silent_(silent || progress == "none"),
      live_(!silent_ && (progress == "on" || (progress == "auto" && ::isatty(STDERR_FILENO) == 1))),
      plain_(!silent_ && !live_ && progress == "auto") {
  if (plain_) last_ = std::chrono::steady_clock::now();
}

Report::~Report() { erase(); }

void Report::erase() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void Report::line(const std::string& text) {
  if (silent_) return;
  erase();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

std::string shown(const Standing& place) {
  const auto left = static_cast<unsigned long>(std::max(place.seconds_left, 0.0));
  char time[32], text[200];
  if (left < 3600)
    std::snprintf(time, sizeof time, "%lu:%02lu", left / 60, left % 60);
  else
    std::snprintf(time, sizeof time, "%lu:%02lu:%02lu", left / 3600, left / 60 % 60, left % 60);
  std::snprintf(text, sizeof text, "epoch %zu/%zu  step %zu/%zu  loss %.4f  %.0f samples/s  %s left", place.epoch,
                place.epochs, place.step, place.steps, place.loss, place.samples_per_second, time);
  return text;
}

void Report::step(const Standing& place) {
  if (!live_ && !plain_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (live_ ? std::chrono::milliseconds(100) : std::chrono::seconds(30))) return;
  last_ = now;
  if (plain_) return line("  " + shown(place));
  drawn_ = true;
  struct winsize window = {};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
  std::string text = shown(place);
  // the live line must fit into one row of the terminal, or it could not be overwritten
  if (known && text.size() >= window.ws_col) text.resize(window.ws_col - 1U);
  std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
  std::fflush(stderr);
}

double EpochResult::metric(std::string_view name) const noexcept {
  for (const auto& [each, value] : metrics)
    if (each == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

WaitedFor EpochResult::latest() const noexcept {
  const auto found = std::ranges::max_element(waited_for, {}, &WaitedFor::seconds);
  return found == waited_for.end() ? WaitedFor() : *found;
}

std::string shares(const EpochResult& r) {
  const PhaseTimes& spent = r.phases;
  const auto share = [&](const char* name, double seconds) {
    char text[64];
    std::snprintf(text, sizeof text, "%s %.0f %%", name, spent.wall() > 0 ? 100 * seconds / spent.wall() : 0);
    return std::string(text);
  };
  std::string all = share("compute", spent.compute);
  if (r.ranks > 1) {
    all += ", " + share("communication", spent.communication) + ", " + share("waiting", spent.waiting);
    if (!r.waited_for.empty() && spent.waiting > 0.005 * spent.wall())
      all += " (most for rank " + std::to_string(r.latest().rank) + ")";
  }
  return all + ", " + share("load", spent.load) + ", " + share("other", spent.other);
}

void Report::validation(const Validation& found) {
  char text[128];
  std::snprintf(text, sizeof text, "  step %zu, epoch %.2f  held-out loss %.4f", found.step, found.epoch, found.loss);
  line(text + shown(found.metrics));
}

void Report::epoch(const EpochResult& r) {
  char text[128];
  std::snprintf(text, sizeof text, "epoch %3zu/%zu  loss %.4f", r.epoch, r.epochs, r.train_loss);
  std::string all = text;
  if (r.validated) {
    std::snprintf(text, sizeof text, "  held-out loss %.4f", r.test_loss);
    all += text + shown(r.metrics);
  }
  std::snprintf(text, sizeof text, "  %.0f samples/s  ", r.samples_per_second);
  line(all + text + shares(r));
}

}  // namespace tutti::engine
