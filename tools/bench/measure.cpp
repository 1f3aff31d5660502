// Measures all sizes of a sweep, one after the other, in the same two buffers.
#include "tools/bench/measure.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "tools/bench/modes.hpp"
#include "tools/bench/trials.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

Result measure_calls(Trials& trials, const Sweep& sweep) {
  const std::vector<double> warm = trials.seconds(trials.calls(std::max(1, sweep.warmup)));
  const std::vector<double> seconds = trials.seconds(trials.calls(trials.iterations(warm[warm.size() / 2])));
  trials.check_once();
  return trials.result(seconds);
}

Row measure_row(Implementation& implementation, Trials& trials, const Sweep& sweep) {
  if (!sweep.overlap.empty()) return measure_overlap(implementation, trials, sweep);
  if (sweep.late > 0) return measure_late(implementation, trials, sweep);
  return {trials.what(), measure_calls(trials, sweep), {}, false, {}};
}

}  // namespace

std::shared_ptr<std::byte> ordinary_memory(std::size_t bytes) {
  constexpr std::align_val_t alignment{4096};
  bytes = std::max<std::size_t>(bytes, 64);
  auto* data = static_cast<std::byte*>(operator new(bytes, alignment));
  std::fill(data, data + bytes, std::byte{});
  return {data, [](std::byte* old) { operator delete(old, alignment); }};
}

std::shared_ptr<std::byte> Implementation::memory(std::size_t bytes) { return ordinary_memory(bytes); }

void Implementation::run_beside(const Case&, const std::byte*, std::byte*, const std::function<void()>&) {
  throw Error(Code::invalid, name() + " is not measured with computing beside its calls");
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
  unsigned epoch = 0;
  for (const Case& what : all) {
    if (const std::string why = implementation.refuses(what); !why.empty()) throw Error(Code::invalid, why);
    const auto trials_of = [&](const Case& one) {
      return Trials(implementation, board, sweep, one, {in.get(), out.get()}, epoch);
    };
    Trials trials = trials_of(what);
    Row row = measure_row(implementation, trials, sweep);
    Case in_place = what;
    in_place.in_place = true;
    // A barrier has no buffers, and broadcast and sendrecv have no separate in-place form.
    const bool has_two = what.kind != Kind::barrier && what.kind != Kind::broadcast && what.kind != Kind::send;
    row.has_in_place =
        sweep.in_place && extra_names(sweep).empty() && has_two && implementation.refuses(in_place).empty();
    if (row.has_in_place) {
      Trials again = trials_of(in_place);
      row.in_place = measure_calls(again, sweep);
    }
    each(row, context);
  }
}

}  // namespace tutti::bench
