// What libibverbs hands out, each given back with its owner.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

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

}  // namespace tutti::ibverbs
