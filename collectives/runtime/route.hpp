// Route: the backend of a call, and its algorithm.
#pragma once

#include <string>

#include "tutti/provider/backend.hpp"

namespace tutti {

struct Route {
  Backend* backend = nullptr;
  std::string algorithm;
  std::size_t piece = 0;   ///< see Call::piece
  bool own_plans = false;  ///< whether the context's transport carries its messages
};

/// Gives the route of calls that are launched before the backends are known; such calls wait, in order. Token held.
class Router {
 public:
  virtual ~Router() = default;
  /// Returns null while the route is not known. Throws Error if no backend supports the call.
  virtual const Route* route(const Collective& call, const std::string& wanted) = 0;
  /// The communicator has failed, and no call waits for a route any more.
  virtual void give_up() noexcept = 0;
};

}  // namespace tutti
