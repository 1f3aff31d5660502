// Availability: which backend and algorithm can do which collective here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/collective.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

/// One cell of the table of collective, device, sync or async form, and backend[/algorithm]. Every call returns a Work
/// and the synchronous form waits for it, so a cell holds for both forms.
struct Availability {
  enum class State { available, unavailable, unimplemented };  ///< from best to worst
  Kind kind;
  Device::Kind device;
  std::string target;  ///< "planned/ring", "mpi"
  State state;
  std::string note;  ///< the algorithm's idea, or why it is not available
};

std::string_view name(Availability::State state) noexcept;

/// All cells, by kind, then backend, then algorithm, then device. Device memory that is staged through the host counts
/// as available on devices. Loads every module, and initialises the accelerator.
std::vector<Availability> availability(const Settings& settings);

}  // namespace tutti::tools
