// The values of a scenario's buffers: every rank can say what every other one has, and all results are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/chaos/scenario.hpp"

namespace tutti::testing {

/// Element `i` of the rank's input, as an integer. Sums and products of nine ranks are exact in every dtype.
std::int64_t value_of(const CallPlan& plan, int rank, std::size_t i);

/// The reduction of element `i` over `ranks` ranks, before an integer wraps.
double folded(const CallPlan& plan, int ranks, std::size_t i);

/// Writes `value` as element `i`; integers wrap.
void put(DType dtype, std::byte* data, std::size_t i, double value);

/// The rank's input of `count` elements, from its element `first` on.
std::vector<std::byte> input_of(const CallPlan& plan, int rank, std::size_t first, std::size_t count);

}  // namespace tutti::testing
