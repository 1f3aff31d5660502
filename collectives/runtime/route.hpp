// Route: the backend of a call, and its algorithm.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/provider/backend.hpp"

namespace tutti {

struct Route {
  Backend* backend = nullptr;
  std::string algorithm;
  std::size_t piece = 0;         ///< bytes that a rank forwards at a time: Call::piece
  bool own_plans = false;        ///< true: the messages of the call go over the context's transport
  bool reports_waiting = false;  ///< Backend::reports_waiting()
  std::uint8_t recorded = 0;     ///< what the flight recorder names the route: GroupRecord::text()
};

/// Chooses the route of calls that were launched before the backends are known. Such calls wait in launch order. For
/// the holder of the progress token.
class Router {
 public:
  virtual ~Router() = default;
  /// Returns null while the route is not known. Throws Error if no backend supports the call.
  virtual const Route* route(const Collective& call, const std::string& wanted) = 0;
  /// Called when the communicator has failed: no call needs a route any more.
  virtual void give_up() noexcept = 0;
};

}  // namespace tutti
