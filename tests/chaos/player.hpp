// Player: one rank plays its part of a scenario.
#pragma once

#include "tests/chaos/gate.hpp"
#include "tests/chaos/report.hpp"
#include "tutti/bootstrap.hpp"

namespace tutti::testing {

/// Connects, plays all acts, and leaves. Throws nothing.
Report play(const Scenario& scenario, const Bootstrap& bootstrap, Gate& gate);

}  // namespace tutti::testing
