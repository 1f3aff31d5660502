// Adapts torch's store to the Store that ranks use to meet.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "tutti/store.hpp"

namespace tutti::torch_binding {

/// Uses a connection of its own if the store can be cloned, so that a user's blocking call does not delay failure
/// messages. Never blocks in torch's store: it polls.
std::shared_ptr<Store> adapt(const c10::intrusive_ptr<c10d::Store>& store);

/// A prefix of the store for this group only, because a store may be used by several groups with the same name, one
/// after the other.
std::shared_ptr<Store> next_turn(std::shared_ptr<Store> store, int rank);

}  // namespace tutti::torch_binding
