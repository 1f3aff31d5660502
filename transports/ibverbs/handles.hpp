// Owning handles for libibverbs objects.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

namespace tutti::ibverbs {

template <auto give_back>
struct Giver {
  template <class T>
  void operator()(T* handle) const noexcept {
    give_back(handle);
  }
};

using Context = std::unique_ptr<ibv_context, Giver<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, Giver<ibv_dealloc_pd>>;
using Channel = std::unique_ptr<ibv_comp_channel, Giver<ibv_destroy_comp_channel>>;
using Queue = std::unique_ptr<ibv_cq, Giver<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Giver<ibv_destroy_qp>>;
using Region = std::unique_ptr<ibv_mr, Giver<ibv_dereg_mr>>;

/// The list of this host's devices; devices are valid while it exists.
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  int count() const noexcept { return list_ == nullptr ? 0 : count_; }
  ibv_device* operator[](int i) const noexcept { return list_[i]; }
  /// The device of this name; null if there is none.
  ibv_device* find(const std::string& name) const noexcept {
    for (int i = 0; i < count(); ++i)
      if (name == ibv_get_device_name(list_[i])) return list_[i];
    return nullptr;
  }

 private:
  int count_ = 0;
  ibv_device** list_;
};

}  // namespace tutti::ibverbs
