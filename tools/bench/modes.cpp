// Overlap with computation, and waiting for a late rank.
#include "tools/bench/modes.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <limits>
#include <thread>

#include "tools/bench/compute.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

constexpr int late_calls = 5;

double middle(const std::vector<double>& ascending) { return ascending[ascending.size() / 2]; }

/// Returns the CPU time of all threads of this process.
std::int64_t cpu_nanoseconds() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return spent.tv_sec * 1'000'000'000LL + spent.tv_nsec;
}

/// Sets the length so that the computation, when all ranks run it at once, takes as long as the call.
void match(Compute& compute, Trials& trials, double seconds) {
  compute.set_length(seconds * 1e9);
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::vector<Stamp> stamps;
    for (int i = 0; i < 5; ++i) stamps.push_back(trials.apart([&] { compute(); }));
    compute.set_length(compute.length() * seconds / std::max(middle(trials.seconds(stamps)), 1e-9));
  }
}

}  // namespace

Row measure_overlap(Implementation& implementation, Trials& trials, const Sweep& sweep) {
  const Operands at = trials.operands();
  Compute compute(sweep.overlap == "idle");
  const std::function<void()> computing = [&] { compute(); };
  const auto both = [&] { implementation.run_beside(trials.what(), at.in, at.out, computing); };
  (void)trials.once(both);
  const double call = middle(trials.seconds(trials.calls(std::max(3, sweep.warmup))));
  match(compute, trials, call);
  const int count = trials.iterations(3 * call);
  std::vector<Stamp> of_calls, of_computing, of_both;
  for (int i = 0; i < count; ++i) {
    of_calls.push_back(trials.calls(1).front());
    of_computing.push_back(trials.apart(computing));
    of_both.push_back(trials.once(both));
  }
  const double alone = middle(trials.seconds(of_calls)), computed = middle(trials.seconds(of_computing));
  Row row{trials.what(), trials.result(trials.seconds(of_both)), {}, false, {}};
  const double total = row.out_of_place.median;
  row.extras = {alone * 1e6, computed * 1e6, std::max(0.0, 100 * (1 - (total - computed) / alone)),
                total / (alone + computed)};
  return row;
}

Row measure_late(Implementation& implementation, Trials& trials, const Sweep& sweep) {
  if (implementation.ranks() < 2) throw Error(Code::invalid, "one rank cannot be late: -np 2");
  const bool late = implementation.rank() == implementation.ranks() - 1;
  (void)trials.calls(std::max(1, sweep.warmup));
  // never the minimum over all ranks of `entered`; negated, never the maximum of `left`
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<Stamp> own, all, burnt;
  for (int i = 0; i < (sweep.iterations > 0 ? sweep.iterations : late_calls); ++i) {
    Stamp call;
    std::int64_t cpu = 0;
    (void)trials.once([&] {
      if (late) std::this_thread::sleep_for(std::chrono::duration<double>(sweep.late));
      cpu = cpu_nanoseconds();
      call = now_stamp();
      implementation.run(trials.what(), trials.operands().in, trials.operands().out);
      call.left = now_stamp().left;
      cpu = cpu_nanoseconds() - cpu;
    });
    const double percent = 100 * static_cast<double>(cpu) / static_cast<double>(call.left - call.entered);
    own.push_back(late ? call : Stamp{far, -far});
    all.push_back(late ? call : Stamp{far, call.left});
    burnt.push_back({0, late ? 0 : static_cast<std::int64_t>(percent * 1e9)});
  }
  Row row{trials.what(), trials.result(trials.seconds(own)), {}, false, {}};
  row.extras = {middle(trials.seconds(burnt)), middle(trials.seconds(all)) * 1e6};
  return row;
}

}  // namespace tutti::bench
