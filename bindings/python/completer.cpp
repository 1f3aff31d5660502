#include "bindings/python/completer.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tutti/fork.hpp"
#include "tutti/threads.hpp"

namespace tutti::python {
namespace {

constexpr Seconds patience(2);  // at interpreter exit

struct Kept {
  Communicator communicator;
  Work work;
  std::vector<Operand> operands;
};

/// `calls` is guarded by `mutex`. No Python code runs while `mutex` is locked.
struct Keeper {
  std::mutex mutex;
  std::vector<Kept> calls;
  std::atomic<bool> any = false;
};
Keeper& keeper() {
  static auto* const one = new Keeper;  // never destroyed, as it owns Python objects
  return *one;
}

/// A callback and its argument; owned references, used with the GIL held.
struct Callback {
  PyObject* object;
  PyObject* callback;
};

struct Completer {
  std::mutex mutex;
  std::condition_variable came;
  std::deque<Callback> due;
  bool ends = false;
  std::thread thread;
  const std::uint32_t generation = fork_generation();
};
Completer& completer() {
  static auto* const one = new Completer;
  return *one;
}

void run_one(const Callback& one) {
  const nb::gil_scoped_acquire gil;
  const nb::object object = nb::steal(one.object), callback = nb::steal(one.callback);
  PyObject* const result = PyObject_CallFunctionObjArgs(callback.ptr(), object.ptr(), nullptr);
  if (result == nullptr) {
    PyErr_WriteUnraisable(callback.ptr());
  } else {
    Py_DECREF(result);
  }
}

void run_all() {
  Completer& here = completer();
  for (;;) {
    std::unique_lock lock(here.mutex);
    here.came.wait(lock, [&] { return here.ends || !here.due.empty(); });
    if (here.ends) return;
    const Callback one = here.due.front();
    here.due.pop_front();
    lock.unlock();
    run_one(one);
  }
}

}  // namespace

void keep_until_done(Communicator communicator, Work work, std::vector<Operand> operands) {
  Keeper& here = keeper();
  const std::lock_guard lock(here.mutex);
  here.calls.push_back({std::move(communicator), std::move(work), std::move(operands)});
  here.any = true;
}

void let_go_of_the_done() {
  Keeper& here = keeper();
  if (!here.any.load(std::memory_order_relaxed)) return;
  std::vector<Kept> done;
  {
    const std::lock_guard lock(here.mutex);
    const auto first =
        std::partition(here.calls.begin(), here.calls.end(), [](const Kept& one) { return !one.work.done(); });
    std::move(first, here.calls.end(), std::back_inserter(done));
    here.calls.erase(first, here.calls.end());
    here.any = !here.calls.empty();
  }
  for (Kept& one : done) one.operands.clear();  // releases Python objects; needs the GIL
  const nb::gil_scoped_release released;
  done.clear();
}

void call_back(const Work& work, nb::object object, nb::object callback) {
  Completer& here = completer();
  {
    const std::lock_guard lock(here.mutex);
    if (!here.thread.joinable() && !here.ends) here.thread = start_thread("runs Python callbacks", run_all);
  }
  const Callback one{object.release().ptr(), callback.release().ptr()};
  const auto hand_over = [one] {
    Completer& to = completer();
    const std::lock_guard lock(to.mutex);
    to.due.push_back(one);
    to.came.notify_one();
  };
  if (work.done()) return hand_over();
  work.then([hand_over](const Status&) { hand_over(); });
}

// A forked child has no thread to stop, and the calls in flight belong to the parent process.
void stop_threads() {
  Completer& here = completer();
  if (here.generation != fork_generation()) return;
  const nb::gil_scoped_release released;
  {
    const std::lock_guard lock(here.mutex);
    here.ends = true;
    here.came.notify_one();
  }
  if (here.thread.joinable()) here.thread.join();
  const Deadline until = deadline_in(patience);
  std::vector<Work> open;
  {
    const std::lock_guard lock(keeper().mutex);
    for (const Kept& one : keeper().calls) open.push_back(one.work);
  }
  for (const Work& one : open) {
    try {
      static_cast<void>(one.wait_for(std::max(Seconds(0), Seconds(until - Clock::now()))));
    } catch (const Error&) {  // errors are ignored at exit
    }
  }
}

}  // namespace tutti::python
