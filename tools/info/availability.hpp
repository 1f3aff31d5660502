// Availability: which backend and algorithm of this installation can perform which collective.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/collective.hpp"
#include "tutti/settings.hpp"

namespace tutti::tools {

/// One cell of a table by collective, device, and backend[/algorithm]. It holds for the synchronous and the
/// asynchronous form, because every call returns a Work and the synchronous form waits for it.
struct Availability {
  enum class State { available, unavailable, unimplemented };  ///< from best to worst
  Kind kind;
  Device::Kind device;
  std::string target;  ///< "planned/ring", "mpi"
  State state;
  std::string note;  ///< the algorithm's idea, or why the cell is not available
};

std::string_view name(Availability::State state) noexcept;

/// Returns all cells, sorted by kind, then backend, then algorithm, then device. Device memory counts as available if
/// it is staged through the host. Loads every module, and initialises the accelerator.
std::vector<Availability> availability(const Settings& settings);

}  // namespace tutti::tools
