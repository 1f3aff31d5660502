// Making the backends of a communicator, among all its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collectives/api/communicator.hpp"
#include "collectives/route/selector.hpp"
#include "collectives/runtime/context.hpp"

namespace tutti {

/// A backend by name for the ranks of `communicator`, or why one of them cannot have it. Collective; blocks. All
/// ranks get one, or none does.
struct MadeBackend {
  std::shared_ptr<Backend> backend;
  std::string reason;
};
struct BackendAttempt {
  std::string name;
  int number;  ///< of the attempts of this communicator, so that none reads what an earlier one left in the store
  std::optional<double> patience = {};  ///< with ranks that have not come to it yet, in seconds
};
/// For a patience that ends with the communicator alone.
inline constexpr double never_late = 1e9;
MadeBackend make_backend(const BackendAttempt& attempt, Communicator& communicator, Context& context,
                         const Group& group);

}  // namespace tutti
