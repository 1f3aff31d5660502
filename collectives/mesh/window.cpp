// Window: which inputs a range of outputs reads, and which outputs read only a given range of inputs.
#include "tutti/cut.hpp"

namespace tutti {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept { return a >= 0 ? a / b : -((-a + b - 1) / b); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return -floor_div(-a, b); }

}  // namespace

std::int64_t Window::outputs(std::int64_t extent) const noexcept {
  if (transposed) return extent < 1 ? 0 : (extent - 1) * stride - low - high + reach() + extra;
  const std::int64_t room = extent + low + high - reach();
  if (room < 0 && (!ceil || room + stride <= 0)) return 0;
  std::int64_t count = (ceil ? ceil_div(room, stride) : room / stride) + 1;
  // no output for a window that would start in the padding after the input
  if (ceil && (count - 1) * stride >= extent + low) --count;
  return count;
}

Interval Window::reads(Interval outputs) const noexcept {
  if (outputs.empty()) return {};
  if (!transposed) return {outputs.begin * stride - low, (outputs.end - 1) * stride - low + reach()};
  return {ceil_div(outputs.begin + low - reach() + 1, stride), floor_div(outputs.end - 1 + low, stride) + 1};
}

Interval inner(const Window& window, Interval outputs, Interval tile, std::int64_t extent) noexcept {
  const auto is_inside = [&](Interval some) {
    const Interval read = common(window.reads(some), {0, extent});
    return read.empty() || common(read, tile) == read;
  };
  while (!outputs.empty() && !is_inside({outputs.begin, outputs.begin + 1})) ++outputs.begin;
  while (!outputs.empty() && !is_inside({outputs.end - 1, outputs.end})) --outputs.end;
  // Also checks the whole range: outputs at the ends may read padding only, while others between them read beyond
  // `tile`.
  return outputs.empty() || !is_inside(outputs) ? Interval{} : outputs;
}

Halo halo(const Window& window, std::int64_t extent, int parts, int part) {
  const Interval tile = Cut::even(extent, parts)[part];
  const Interval outputs = Cut::even(window.outputs(extent), parts)[part];
  if (outputs.empty()) return {};
  const Interval read = common(window.reads(outputs), {0, extent});
  return {tile.begin - read.begin, read.end - tile.end};
}

}  // namespace tutti
