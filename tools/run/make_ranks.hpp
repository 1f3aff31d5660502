// Factories of Ranks.
#pragma once

#include <memory>

#include "tools/run/ranks.hpp"

namespace tutti::tools {

/// Returns ranks that this process starts itself, all on this host. `sinks` must outlive the result.
std::unique_ptr<Ranks> make_local_ranks(const Job& job, Sinks& sinks);

/// Returns ranks on job.hosts, started by an agent on each host. `sinks` must outlive the result.
std::unique_ptr<Ranks> make_remote_ranks(const Job& job, Sinks& sinks);

}  // namespace tutti::tools
