// Adapts torch's store to the Store that ranks use to meet.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "tutti/store.hpp"

namespace tutti::torch_binding {

/// Uses a connection of its own if the store can be cloned, so that a user's blocking call does not delay failure
/// messages. Never blocks in torch's store: it polls.
std::shared_ptr<Store> adapt(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace tutti::torch_binding
