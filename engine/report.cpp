// Lines on stdout, and one line on stderr that is written over.
#include "engine/report.hpp"

#include <unistd.h>

#include <cstdio>

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

void Report::step(std::size_t epoch, std::size_t step, std::size_t steps, double loss, double images_per_second) {
  if (!live_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  std::fprintf(stderr, "\r\x1b[Kepoch %zu  step %zu/%zu  loss %.4f  %.0f images/s", epoch, step, steps, loss,
               images_per_second);
  std::fflush(stderr);
}

void Report::epoch(const EpochResult& r) {
  char text[192];
  std::snprintf(
      text, sizeof text,
      "epoch %3zu/%zu  loss %.4f  held-out accuracy %6.2f %%  loss %.4f  %7.0f images/s  communication %2.0f %%",
      r.epoch, r.epochs, r.train_loss, 100 * r.accuracy, r.test_loss, r.images_per_second, 100 * r.communication);
  line(text);
}

}  // namespace tutti::engine
