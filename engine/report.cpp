// Lines on stdout, and one line on stderr that is written over.
#include "engine/report.hpp"

#include <unistd.h>

#include <cstdio>
#include <limits>

namespace tutti::engine {

Report::Report(std::string_view progress, bool silent)
    : silent_(silent), live_(!silent && (progress == "on" || (progress == "auto" && ::isatty(STDERR_FILENO) == 1))) {}

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

void Report::step(std::size_t epoch, std::size_t step, std::size_t steps, double loss, double samples_per_second) {
  if (!live_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  std::fprintf(stderr, "\r\x1b[Kepoch %zu  step %zu/%zu  loss %.4f  %.0f samples/s", epoch, step, steps, loss,
               samples_per_second);
  std::fflush(stderr);
}

double EpochResult::metric(std::string_view name) const noexcept {
  for (const auto& [each, value] : metrics)
    if (each == name) return value;
  return std::numeric_limits<double>::quiet_NaN();
}

void Report::epoch(const EpochResult& r) {
  char text[128];
  std::snprintf(text, sizeof text, "epoch %3zu/%zu  loss %.4f  held-out loss %.4f", r.epoch, r.epochs, r.train_loss,
                r.test_loss);
  std::string all = text;
  for (const auto& [name, value] : r.metrics) {
    const bool share = name.ends_with("accuracy");
    std::snprintf(text, sizeof text, share ? "  %s %.2f %%" : "  %s %.4g", name.c_str(), share ? 100 * value : value);
    all += text;
  }
  std::snprintf(text, sizeof text, "  %.0f samples/s  communication %.0f %%", r.samples_per_second,
                100 * r.communication);
  line(all + text);
}

}  // namespace tutti::engine
