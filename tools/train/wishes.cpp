#include "tools/train/wishes.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string_view>

namespace tutti::tools {
namespace {

std::atomic<bool> wants_checkpoint = false, tells_of_end = false, keeps_one = false;
std::atomic<int> ended_by = 0;

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_checkpoint(int /*signal*/) { wants_checkpoint = true; }

void on_end(int signal) {
  const int error = errno;
  if (ended_by.exchange(signal) != 0) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  } else if (tells_of_end) {
    const std::string_view line =
        keeps_one ? "tutti train: ending after this step, with a checkpoint; the same signal once more ends at once\n"
                  : "tutti train: ending after this step, without a checkpoint, as the run keeps none\n";
    static_cast<void>(write(STDERR_FILENO, line.data(), line.size()) < 0);
  }
  errno = error;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void take_checkpoint_signal() { handle(SIGUSR1, on_checkpoint); }

void take_ending_signals(bool tells, bool keeps) {
  tells_of_end = tells;
  keeps_one = keeps;
  handle(SIGINT, on_end);
  handle(SIGTERM, on_end);
}

engine::Wish wish_of_signals() {
  if (ended_by != 0) return engine::Wish::end;
  return wants_checkpoint.exchange(false) ? engine::Wish::checkpoint : engine::Wish::nothing;
}

int ending_signal() { return ended_by; }

}  // namespace tutti::tools
