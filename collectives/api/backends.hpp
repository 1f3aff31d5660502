// Creation of a communicator's backends, collectively among its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collectives/route/selector.hpp"
#include "collectives/runtime/context.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// The result of make_backend(): a backend, or null and the reason why a rank cannot create one. Either all ranks of
/// the communicator have a backend or none has.
struct MadeBackend {
  std::shared_ptr<Backend> backend;
  std::string reason;
};
struct BackendAttempt {
  std::string name;
  /// The number of this attempt in the communicator; keeps its store entries apart from those of other attempts.
  int number;
  std::optional<double> patience = {};  ///< seconds to wait for the other ranks; without it, the setting `timeout`
};
/// A value of `patience` that never expires; the wait ends when the communicator fails.
inline constexpr double never_late = 1e9;
/// Creates the backend `attempt.name`. Collective; blocks. Throws Error if the communicator fails or a rank is late.
MadeBackend make_backend(const BackendAttempt& attempt, Communicator& communicator, Context& context,
                         const Group& group);

}  // namespace tutti
