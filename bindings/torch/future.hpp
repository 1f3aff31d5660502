// Future: what Work.get_future() gives in Python.
#pragma once

#include <torch/csrc/jit/python/pybind_utils.h>

#include <memory>

#include "bindings/torch/work.hpp"

namespace tutti::torch_binding {

/// A second base of this kind beside PythonFutureWrapper's: pybind11 then no longer looks for the owners of a Future by
/// a dynamic_cast from the first one, which is not polymorphic.
struct VISIBILITY_HIDDEN NoLookup : std::enable_shared_from_this<NoLookup> {};

/// A torch.futures.Future whose callbacks run one after the other, in a CallbackQueue. A callback that is attached
/// after the result has been seen (by wait(), a true done(), or value()) runs at once in the thread that attaches it,
/// as torch documents. One that is attached when the result is there unseen does not: whether it is there is chance, so
/// ranks would launch calls in different orders.
///
/// Threads: any. All functions are called with the GIL.
class VISIBILITY_HIDDEN Future final : public torch::jit::PythonFutureWrapper, public NoLookup {
 public:
  /// The future of a call.
  explicit Future(c10::intrusive_ptr<Work> work);
  /// A future that derives from one of a call of this group.
  Future(c10::intrusive_ptr<c10::ivalue::Future> future, std::shared_ptr<Group> group, bool ordered, bool seen);

  std::shared_ptr<Future> then(py::function callback);
  void add_done_callback(py::function callback);
  py::object wait();
  bool done();
  py::object value();

 private:
  bool seen() const;
  void attach(std::function<void()> run);

  const c10::intrusive_ptr<Work> work_;
  const std::shared_ptr<Group> group_;
  const bool ordered_;
  std::atomic<bool> seen_;
};

}  // namespace tutti::torch_binding
