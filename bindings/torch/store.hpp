// Adapts torch's store to tutti's Store, through which ranks find one another.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "tutti/store.hpp"

namespace tutti::torch_binding {

/// Uses its own connection if the store can be cloned, so that a blocking call of the program does not delay failure
/// messages. Polls, and never blocks in torch's store.
std::shared_ptr<Store> adapt(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace tutti::torch_binding
