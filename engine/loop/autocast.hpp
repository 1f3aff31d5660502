// Autocast: runs forward in bfloat16 with LibTorch's autocast.
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tutti::engine {

/// While an object with `on` lives, this thread's CPU operations follow at::autocast: matrix products and convolutions
/// use bfloat16, with cast copies of the weights; sums and losses use float32. Enabled by the dispatch key because that
/// interface is the same in all LibTorch versions; bfloat16 is the CPU default.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on), was_excluded_(c10::impl::tls_is_dispatch_key_excluded(key)) {
    if (!on_) return;
    at::autocast::increment_nesting();
    c10::impl::tls_set_dispatch_key_excluded(key, false);
  }
  ~Autocast() {
    if (!on_) return;
    c10::impl::tls_set_dispatch_key_excluded(key, was_excluded_);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();  // frees the cast copies
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  static constexpr c10::DispatchKey key = c10::DispatchKey::AutocastCPU;

  bool on_, was_excluded_;
};

}  // namespace tutti::engine
