// Creation of a communicator's backends, collectively among its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collectives/route/selector.hpp"
#include "collectives/runtime/context.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// A backend for the ranks of `communicator`, or the reason why one of them cannot have it. Collective; blocks.
/// Either all ranks get a backend or none does.
struct MadeBackend {
  std::shared_ptr<Backend> backend;
  std::string reason;
};
struct BackendAttempt {
  std::string name;
  /// counts this communicator's attempts, so that an attempt does not read store entries of an earlier one
  int number;
  std::optional<double> patience = {};  ///< seconds to wait for ranks that have not started the attempt yet
};
/// A patience that never expires; only the end of the communicator stops the wait.
inline constexpr double never_late = 1e9;
MadeBackend make_backend(const BackendAttempt& attempt, Communicator& communicator, Context& context,
                         const Group& group);

}  // namespace tutti
