// Player: one rank plays its part of a scenario.
#pragma once

#include "tests/chaos/gate.hpp"
#include "tests/chaos/report.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::testing {

/// Plays one process: a rank connects, plays all acts, and leaves; a newcomer joins at the end, and has no use for
/// `bootstrap`. Throws nothing.
Report play(const Scenario& scenario, int process, const Bootstrap& bootstrap, Gate& gate);

}  // namespace tutti::testing
