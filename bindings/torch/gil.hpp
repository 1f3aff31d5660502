// WithoutGil: releases Python's lock while a function blocks.
#pragma once

#include <Python.h>

namespace tutti::torch_binding {

/// Releases the GIL in its scope if this thread holds it.
class WithoutGil {
 public:
  WithoutGil() : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

}  // namespace tutti::torch_binding
