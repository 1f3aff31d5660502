// Future: the result of Work.get_future() in Python.
#include "bindings/torch/future.hpp"

#include "bindings/torch/callbacks.hpp"
#include "bindings/torch/signals.hpp"
#include "tutti/log.hpp"

namespace tutti::torch_binding {
namespace {

using Native = c10::intrusive_ptr<c10::ivalue::Future>;
using torch::jit::PythonFunctionGuard;

/// The callback's result. Throws std::runtime_error with the text of a Python exception. Takes the GIL.
c10::IValue result_of(const PythonFunctionGuard& function, const std::shared_ptr<Future>& argument) {
  const py::gil_scoped_acquire gil;
  try {
    return torch::jit::toIValue(function.func_(argument), c10::PyObjectType::get());
  } catch (py::error_already_set& error) {
    const std::string why = error.what();
    error.restore();
    PyErr_Clear();
    throw std::runtime_error("Got the following error when running the callback: " + why);
  }
}

/// Blocks until the future is completed. Call it without the GIL.
void await(const Native& future) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  const auto gate = std::make_shared<Gate>();
  const auto open = [gate](c10::ivalue::Future&) {
    const std::lock_guard lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
  };
  future->addCallback(open, false);
  std::unique_lock lock(gate->mutex);
  while (!gate->opened.wait_for(lock, signal_interval, [&] { return gate->open; })) check_signals();
}

}  // namespace

Future::Future(c10::intrusive_ptr<Work> work)
    : PythonFutureWrapper(work->getFuture()),
      work_(work),
      group_(work->group()),
      ordered_(work->is_ordered()),
      seen_(false) {}

Future::Future(Native future, std::shared_ptr<Group> group, bool ordered, bool seen)
    : PythonFutureWrapper(std::move(future)), group_(std::move(group)), ordered_(ordered), seen_(seen) {}

std::shared_ptr<Future> Future::then(py::function callback) {
  const Native child = fut->createInstance(c10::PyObjectType::get());
  const auto function = std::make_shared<PythonFunctionGuard>(std::move(callback));
  const auto argument = std::make_shared<Future>(fut, group_, ordered_, true);
  attach([child, function, argument] {
    try {
      child->markCompleted(result_of(*function, argument));
    } catch (const std::exception&) {
      child->setErrorIfNeeded(std::current_exception());
    }
  });
  return std::make_shared<Future>(child, group_, ordered_, seen());
}

void Future::add_done_callback(py::function callback) {
  const auto function = std::make_shared<PythonFunctionGuard>(std::move(callback));
  const auto argument = std::make_shared<Future>(fut, group_, ordered_, true);
  attach([function, argument] {
    try {
      result_of(*function, argument);
    } catch (const std::exception& error) {
      log(LogLevel::error, error.what());
    }
  });
}

void Future::attach(std::function<void()> run) {
  if (!seen()) return group_->callback_queue()->push({fut, std::move(run), ordered_, group_});
  const auto now = [&](c10::ivalue::Future&) { run(); };
  fut->addCallback(now);  // `fut` is completed, so `run` runs at once; on CUDA, on a stream that waits for the result
}

py::object Future::wait() {
  {
    const py::gil_scoped_release release;
    if (!fut->completed()) work_ && !work_->is_cuda() ? static_cast<void>(work_->wait()) : await(fut);
    fut->wait();
  }
  return value();
}

bool Future::done() {
  const bool is = fut->completed();
  if (is) seen_ = true;
  return is;
}

py::object Future::value() {
  seen_ = fut->completed();
  return PythonFutureWrapper::value();
}

bool Future::seen() const { return seen_ || (work_ && work_->is_seen()); }

}  // namespace tutti::torch_binding
