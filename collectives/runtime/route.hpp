// Route: which backend does a call, and by which algorithm.
#pragma once

#include <string>

#include "transports/backend.hpp"

namespace tutti {

struct Route {
  Backend* backend = nullptr;
  std::string algorithm;
  const void* token = nullptr;  ///< Backend::token()
  bool own_plans = false;       ///< its messages are those of the context's transport
};

/// Gives the route of calls that are made before it is known; they wait for it, in their order. Token held.
class Router {
 public:
  virtual ~Router() = default;
  /// Null: it is not known yet. Throws Error where no backend does the call.
  virtual const Route* route(const Collective& call, const std::string& wanted) = 0;
  /// The communicator has failed, and nobody waits any more.
  virtual void give_up() noexcept = 0;
};

}  // namespace tutti
