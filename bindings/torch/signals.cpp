// Handles Python's signals, such as Ctrl-C, while a call blocks.
#include "bindings/torch/signals.hpp"

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace tutti::torch_binding {

void check_signals() {
  if (syscall(SYS_gettid) != getpid() || Py_IsInitialized() == 0) return;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

bool wait_until(const tutti::Work& work, Deadline until) {
  while (true) {
    const Seconds left = until - Clock::now();
    if (work.wait_for(std::clamp(left, Seconds(0), Seconds(signal_interval)))) return true;
    if (left <= Seconds(signal_interval)) return false;
    check_signals();
  }
}

}  // namespace tutti::torch_binding
