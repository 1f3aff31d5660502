// The measuring loop: barrier, stamp, call, stamp; between iterations new inputs and a look at every output.
#include "tools/bench/measure.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "tools/bench/pattern.hpp"
#include "transports/core/status.hpp"

namespace tutti::bench {
namespace {

class Loop {
 public:
  Loop(Implementation& implementation, Board& board, const Sweep& sweep)
      : implementation_(implementation), board_(board), sweep_(sweep) {}

  Result measure(const Case& what, std::byte* in, std::byte* out) {
    const Pattern pattern(what, implementation_.rank());
    const Operands at = operands(what, implementation_.rank(), in, out);
    Result result;
    std::vector<Stamp> stamps;
    pattern.fill(what, in, out, epoch_);
    const auto iterate = [&](int count, bool touch) {
      stamps.clear();
      for (int i = 0; i < count; ++i) {
        if (touch) pattern.fill(what, in, out, ++epoch_);
        board_.barrier();
        Stamp stamp = now_stamp();
        implementation_.run(what, at.in, at.out);
        stamp.left = now_stamp().left;
        stamps.push_back(stamp);
        if (touch && sweep_.check) result.wrong += pattern.wrong(what, in, out, epoch_);
      }
      std::vector<double> seconds = board_.durations(stamps);
      std::sort(seconds.begin(), seconds.end());
      return seconds;
    };
    const std::vector<double> warm = iterate(std::max(1, sweep_.warmup), sweep_.touch);
    const std::vector<double> seconds = iterate(iterations(warm[warm.size() / 2]), sweep_.touch);
    result.min = seconds.front();
    result.median = seconds[seconds.size() / 2];
    result.p99 = seconds[std::min(seconds.size() - 1, seconds.size() * 99 / 100)];
    result.iterations = static_cast<int>(seconds.size());
    if (!sweep_.touch && sweep_.check) iterate(1, true);
    result.wrong = board_.sum(result.wrong);
    return result;
  }

 private:
  int iterations(double seconds) {
    const int by_time = static_cast<int>(std::clamp(0.1 / std::max(seconds, 1e-7), 20.0, 2000.0));
    const int wanted = sweep_.iterations > 0 ? sweep_.iterations : by_time;
    return static_cast<int>(board_.from_first(std::min<std::int64_t>(wanted, max_iterations)));
  }

  Implementation& implementation_;
  Board& board_;
  const Sweep& sweep_;
  unsigned epoch_ = 0;
};

}  // namespace

std::shared_ptr<std::byte> Implementation::memory(std::size_t bytes) {
  constexpr std::align_val_t alignment{4096};
  bytes = std::max<std::size_t>(bytes, 64);
  auto* data = static_cast<std::byte*>(operator new(bytes, alignment));
  std::fill(data, data + bytes, std::byte{});
  return {data, [](std::byte* old) { operator delete(old, alignment); }};
}

void measure(Implementation& implementation, Board& board, const Sweep& sweep, void (*each)(const Row&, void*),
             void* context) {
  const std::vector<Case> all = cases(sweep, implementation.ranks());
  if (sweep.root < 0 || sweep.root >= implementation.ranks())
    throw Error(Code::invalid, "--root is not one of the ranks; there are " + std::to_string(implementation.ranks()));
  std::size_t in_bytes = 0, out_bytes = 0;
  for (const Case& what : all) {
    in_bytes = std::max(in_bytes, what.in_count() * size_of(what.dtype));
    out_bytes = std::max(out_bytes, what.out_count() * size_of(what.dtype));
  }
  const auto in = implementation.memory(in_bytes), out = implementation.memory(out_bytes);
  Loop loop(implementation, board, sweep);
  for (const Case& what : all) {
    if (const std::string why = implementation.refuses(what); !why.empty()) throw Error(Code::invalid, why);
    Row row{what, loop.measure(what, in.get(), out.get()), {}};
    Case in_place = what;
    in_place.in_place = true;
    // A barrier has no buffers, a broadcast is always in place, and so is what sends from where it receives.
    const bool has_two = what.kind != Kind::barrier && what.kind != Kind::broadcast && what.kind != Kind::send;
    row.has_in_place = sweep.in_place && has_two && implementation.refuses(in_place).empty();
    if (row.has_in_place) row.in_place = loop.measure(in_place, in.get(), out.get());
    each(row, context);
  }
}

}  // namespace tutti::bench
