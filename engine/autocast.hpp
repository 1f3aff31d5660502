// Autocast: forward in bfloat16 where LibTorch holds that for good.
#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tutti::engine {

/// While one lives that is `on`, the calling thread's operations on the CPU are those of at::autocast: matrix products
/// and convolutions take bfloat16, with copies of the weights, which stay as they are; sums and losses take float32.
/// The switch is the dispatcher's, which all versions of LibTorch have alike, and bfloat16 is the CPU's standard.
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
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();  // the copies
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  static constexpr c10::DispatchKey key = c10::DispatchKey::AutocastCPU;

  bool on_, was_excluded_;
};

}  // namespace tutti::engine
