// Windows of convolutions and pools along one dimension: how many outputs there are, and what each of them reads. Pure
// arithmetic.
#pragma once

#include <cstdint>

#include "collectives/mesh/cut.hpp"

namespace tutti {

/// A window that slides along one dimension. Output o of a window reads the positions o * stride - low + k * dilation,
/// k from 0 to size - 1; what lies outside of the input is padding.
///
/// A transposed one has its inputs and outputs exchanged: input i adds to the outputs i * stride - low + k * dilation.
struct Window {
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t low = 0, high = 0;  ///< padding before the first position, and after the last
  bool ceil = false;               ///< a last window may begin inside and end beyond the padding, as in ceil_mode
  bool transposed = false;
  std::int64_t extra = 0;  ///< outputs of a transposed one beyond the last, as output_padding

  std::int64_t reach() const noexcept { return (size - 1) * dilation + 1; }  ///< from its first position to its last
  /// How many outputs an input of `extent` has; 0 where the window does not fit.
  std::int64_t outputs(std::int64_t extent) const noexcept;
  /// The positions that these outputs read, padding included: may reach below 0 and beyond the input's extent. Empty of
  /// no outputs.
  Interval reads(Interval outputs) const noexcept;
};

/// Those of `outputs` that read nothing beyond `tile` but padding. Not of transposed windows.
Interval inner(const Window& window, Interval outputs, Interval tile, std::int64_t extent) noexcept;

/// How far `read` reaches beyond `tile` on both sides: negative where it does not reach its end.
struct Halo {
  std::int64_t low = 0, high = 0;
  bool operator==(const Halo&) const = default;
};

/// Part `part`'s halo where inputs and outputs are cut evenly among `parts`: the widths that neighbours have to send.
/// Padding is no halo.
Halo halo(const Window& window, std::int64_t extent, int parts, int part);

}  // namespace tutti
