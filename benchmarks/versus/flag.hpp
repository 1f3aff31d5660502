// Flag: the time until one core sees what another core has stored. It changes with the state of the machine.
#pragma once

namespace tutti::bench {

/// The median time of a flag in nanoseconds, one way, from round trips between two threads on the first two cores that
/// this process may use; 0 with only one core. Takes about 0.1 s, or up to 0.5 s if others use these cores.
double flag_ns();

}  // namespace tutti::bench
