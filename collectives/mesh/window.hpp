// Windows of convolutions and pooling along one dimension: the number of outputs, and the inputs that each reads. Pure
// arithmetic.
#pragma once

#include <cstdint>

#include "collectives/mesh/cut.hpp"

namespace tutti {

/// A window that slides along one dimension. Output o reads the positions o * stride - low + k * dilation for k from 0
/// to size - 1; positions outside the input are padding.
///
/// In a transposed window inputs and outputs are exchanged: input i contributes to the outputs i * stride - low + k *
/// dilation.
struct Window {
  std::int64_t size = 1, stride = 1, dilation = 1;
  std::int64_t low = 0, high = 0;  ///< padding before the first and after the last position
  bool ceil = false;               ///< as ceil_mode in PyTorch: the last window may extend beyond the padding
  bool transposed = false;
  std::int64_t extra = 0;  ///< as output_padding in PyTorch: additional outputs of a transposed window

  std::int64_t reach() const noexcept { return (size - 1) * dilation + 1; }  ///< extent of the window in positions
  /// The number of outputs for an input of `extent` positions; 0 if the window does not fit.
  std::int64_t outputs(std::int64_t extent) const noexcept;
  /// The positions that these outputs read, padding included: may start below 0 and end beyond the input. Empty if
  /// `outputs` is empty.
  Interval reads(Interval outputs) const noexcept;
};

/// The interval of `outputs` that read only positions in `tile` and padding. Not for transposed windows.
Interval inner(const Window& window, Interval outputs, Interval tile, std::int64_t extent) noexcept;

/// How far `read` extends beyond `tile` on each side; negative if it ends inside the tile.
struct Halo {
  std::int64_t low = 0, high = 0;
  bool operator==(const Halo&) const = default;
};

/// The halo of part `part` if inputs and outputs are both partitioned evenly into `parts`; padding not included.
Halo halo(const Window& window, std::int64_t extent, int parts, int part);

}  // namespace tutti
