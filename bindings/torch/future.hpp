// Future: the result of Work.get_future() in Python.
#pragma once

#include <torch/csrc/jit/python/pybind_utils.h>

#include <memory>

#include "bindings/torch/work.hpp"

namespace tutti::torch_binding {

/// A second base that derives from enable_shared_from_this, besides PythonFutureWrapper. With two such bases, pybind11
/// does not look for the owner of a Future by a dynamic_cast from the first, which is not polymorphic.
struct VISIBILITY_HIDDEN NoLookup : std::enable_shared_from_this<NoLookup> {};

/// A torch.futures.Future whose callbacks run one after the other, in a CallbackQueue. A callback that is attached
/// after the program has seen the result (by wait(), a true done(), or value()) runs at once in the thread that
/// attaches it, as torch documents. If the program has not seen the result, the callback is queued, even if the result
/// exists: its existence depends on timing, so ranks would otherwise launch the callbacks' calls in different orders.
///
/// Threads: any. All functions are called with the GIL.
class VISIBILITY_HIDDEN Future final : public torch::jit::PythonFutureWrapper, public NoLookup {
 public:
  /// The future of a call.
  explicit Future(c10::intrusive_ptr<Work> work);
  /// A future derived, by then(), from the future of a call of this group.
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
