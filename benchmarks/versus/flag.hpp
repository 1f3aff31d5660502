// Flag: the time until a store of one core is seen by another, which tells a machine's states apart.
#pragma once

namespace tutti::bench {

/// The median time of a flag in nanoseconds, one way, from round trips between two threads on the first two cores that
/// this process may use; 0 with only one core. Takes about 0.1 s, or up to 0.5 s if others use these cores.
double flag_ns();

}  // namespace tutti::bench
