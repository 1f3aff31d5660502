// Flag: how long a store of one core takes to be seen by another, which tells a machine's states apart.
#pragma once

namespace tutti::bench {

/// Nanoseconds, one way, between the first two cores that this process may use: the median of many blocks of round
/// trips between two threads, each bound to its core. 0 where there is only one core. Takes a tenth of a second, where
/// others want these cores up to half of one.
double flag_ns();

}  // namespace tutti::bench
