// The two ways of having ranks.
#pragma once

#include <memory>

#include "tools/run/ranks.hpp"

namespace tutti::tools {

/// Ranks that this process starts itself, all on this host.
std::unique_ptr<Ranks> make_local_ranks(const Job& job, const Signals& signals, Sinks& sinks);

/// Ranks on job.hosts, each host's started by an agent there.
std::unique_ptr<Ranks> make_remote_ranks(const Job& job, const Signals& signals, Sinks& sinks);

}  // namespace tutti::tools
