// Availability: which backend and algorithm can do which collective here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transports/core/collective.hpp"
#include "transports/core/settings.hpp"

namespace tutti::tools {

/// One cell of the table collective x device x sync/async x backend[/algorithm]. Every call of tutti returns at once
/// with a Work, and the synchronous form is its wait(): so both forms always agree.
struct Availability {
  enum class State { available, unavailable, unimplemented };  ///< from best to worst
  Kind kind;
  Device::Kind device;
  std::string target;  ///< "planned/ring", "mpi"
  State state;
  std::string note;  ///< the algorithm's idea, or why it is not available
};

std::string_view name(Availability::State state) noexcept;

/// All cells, by kind, then backend, then algorithm, then device. What staged plays on the host for device memory
/// counts as done on devices. Opens every module, and the accelerator.
std::vector<Availability> availability(const Settings& settings);

}  // namespace tutti::tools
