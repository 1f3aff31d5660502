// torch's store as the store that ranks of tutti meet at.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "transports/core/store.hpp"

namespace tutti::torch_binding {

/// Over a connection of its own where the store has such: a user's waiting call does not hold up news of a failure.
/// Never blocks in the store: what it waits for it looks for again and again.
std::shared_ptr<Store> adapt(const c10::intrusive_ptr<c10d::Store>& store);

/// A part of it that this group alone uses: a store may see several groups of one name, one after the other.
std::shared_ptr<Store> next_turn(std::shared_ptr<Store> store, int rank);

}  // namespace tutti::torch_binding
