// Measures how fast copies and folds (reductions) are, in GB/s by size: `kernels copies`, `kernels folds`, or both.
//
// Shows the lower quartile of many short runs, so that other programs on the machine matter little.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "transports/core/copy.hpp"
#include "transports/core/host.hpp"
#include "transports/core/reduce_table.hpp"
#include "transports/core/relax.hpp"
#include "tutti/dtype.hpp"
#include "tutti/reduce.hpp"

namespace {

using namespace tutti;
using Seconds = std::chrono::duration<double>;

double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  ::sched_setaffinity(0, sizeof(set), &set);
}

double lower_quartile(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 4];
}

// Returns shared, populated pages, like those of staging memory.
std::byte* pages(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("kernels: cannot map memory");
    std::exit(1);
  }
  std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

// ---- Copies: one core writes a source and copies it to memory between; another copies it on from there.

using Copy = void (*)(std::byte* into, const std::byte* from, std::size_t bytes);

struct Way {
  const char* name;
  Copy copy;
};

// Copies by vector instructions, as a fold whose result equals its input.
void by_vectors(std::byte* into, const std::byte* from, std::size_t bytes) {
  Fold{DType::u8, Op::bor}(into, from, from, bytes);
}

const Way ways[] = {
    {"copy", [](std::byte* into, const std::byte* from, std::size_t bytes) { copy(into, from, bytes); }},
    {"memcpy", [](std::byte* into, const std::byte* from, std::size_t bytes) { std::memcpy(into, from, bytes); }},
    {"vectors", by_vectors},
    {"streaming", copy_streaming},
};
constexpr std::size_t way_count = std::size(ways);

class Pair {
 public:
  explicit Pair(std::size_t most) : source_(pages(most)), between_(pages(most)), target_(pages(most)) {
    const std::vector<int> cores = allowed_cores();
    other_ = std::thread([this, core = cores.back()] { receive(core); });
    pin(cores.front());
  }
  ~Pair() {
    bytes_ = 0;
    ask_.store(++sequence_, std::memory_order_release);
    other_.join();
  }

  /// Returns the seconds from the first byte copied here to the last byte copied by the other core.
  double time(Copy copy, std::size_t bytes) {
    std::memset(source_, ++sequence_ & 0xff, bytes);
    copy_ = copy;
    bytes_ = bytes;
    const double begin = now();
    copy(between_, source_, bytes);
    ask_.store(sequence_, std::memory_order_release);
    while (answer_.load(std::memory_order_acquire) != sequence_) relax();
    return now() - begin;
  }

 private:
  void receive(int core) {
    pin(core);
    for (int seen = 0;;) {
      int asked;
      while ((asked = ask_.load(std::memory_order_acquire)) == seen) relax();
      seen = asked;
      if (bytes_ == 0) return;
      copy_(target_, between_, bytes_);
      answer_.store(seen, std::memory_order_release);
    }
  }

  std::byte *source_, *between_, *target_;
  Copy copy_ = nullptr;
  std::size_t bytes_ = 0;
  int sequence_ = 0;
  alignas(128) std::atomic<int> ask_{0};
  alignas(128) std::atomic<int> answer_{0};
  std::thread other_;
};

void show_copies() {
  constexpr std::size_t most = std::size_t{32} << 20;
  Pair pair(most);
  std::printf("From core to core by two copies, GB/s of payload; copy() goes by %s from %zu bytes or more.\n%10s",
              copy_way().data(), detail::small_copy, "bytes");
  for (const Way& way : ways) std::printf(" %10s", way.name);
  std::puts("");
  for (std::size_t bytes = 1024; bytes <= most; bytes *= 2) {
    std::vector<double> times[way_count];
    for (int round = 0; round < 5; ++round) {
      for (std::size_t way = 0; way < way_count; ++way) {
        pair.time(ways[way].copy, bytes);  // not timed: the previous way left the cache lines elsewhere
        for (std::size_t i = 0; i < std::clamp<std::size_t>((4 << 20) / bytes, 4, 100); ++i)
          times[way].push_back(pair.time(ways[way].copy, bytes));
      }
    }
    std::printf("%10zu", bytes);
    for (const auto& of_way : times) std::printf(" %10.2f", static_cast<double>(bytes) / lower_quartile(of_way) / 1e9);
    std::puts("");
  }
}

// ---- Folds, on one core.

struct Columns {
  DType dtype;
  Op op;
};

/// Returns the GB/s that a fold reads and writes. `sources` 0: the special form of a fold of two.
double fold_speed(const detail::FoldIsa& isa, Columns what, std::size_t sources, std::size_t bytes,
                  const std::vector<std::byte*>& memory) {
  const auto dtype = static_cast<std::size_t>(what.dtype), op = static_cast<std::size_t>(what.op);
  const std::vector<const std::byte*> from(memory.begin() + 1, memory.end());
  const std::size_t reads = std::max<std::size_t>(sources, 2);
  const std::size_t repeats = std::max<std::size_t>(1, (std::size_t{256} << 10) / bytes);
  std::vector<double> times;
  for (int i = 0; i < (bytes > (1 << 20) ? 5 : 40); ++i) {
    const double begin = now();
    for (std::size_t k = 0; k < repeats; ++k) {
      if (sources == 0)
        isa.table->fold[dtype][op](memory[0], from[0], from[1], bytes, 1);
      else
        isa.table->fold_many[dtype][op]({memory[0], from.data(), sources, bytes, 1, {}});
    }
    times.push_back(now() - begin);
  }
  return static_cast<double>((reads + 1) * bytes * repeats) / lower_quartile(times) / 1e9;
}

void show_folds() {
  constexpr std::size_t most = std::size_t{16} << 20;
  std::vector<std::byte*> memory;
  for (int i = 0; i < 9; ++i) memory.push_back(pages(most));
  constexpr Columns columns[] = {{DType::f32, Op::sum}, {DType::bf16, Op::sum}, {DType::f16, Op::sum},
                                 {DType::f32, Op::max}, {DType::bf16, Op::max}, {DType::i32, Op::sum}};
  for (const detail::FoldIsa& isa : detail::fold_isas()) {
    std::printf("\nFolds on %s, GB/s read and written; `two` is Fold::operator(), numbers are sources of Fold::of().\n",
                isa.name.data());
    std::printf("%10s %8s", "bytes", "");
    for (const Columns& what : columns) std::printf(" %6s %s", name(what.dtype).data(), name(what.op).data());
    std::puts("");
    for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{128} << 10, most}) {
      for (const std::size_t sources : {0, 2, 3, 4, 8}) {
        std::printf("%10zu %8s", bytes, sources == 0 ? "two" : std::to_string(sources).c_str());
        for (const Columns& what : columns) std::printf(" %10.1f", fold_speed(isa, what, sources, bytes, memory));
        std::puts("");
      }
    }
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string_view what = count > 1 ? words[1] : "";
  if (count > 2 || !(what.empty() || what == "copies" || what == "folds")) {
    std::fputs("usage: kernels [copies|folds]\n", stderr);
    return 2;
  }
  if (what != "folds") {
    if (allowed_cores().size() > 1)
      show_copies();
    else
      std::puts("Copies from core to core want two cores.");
  }
  if (what != "copies") show_folds();
}
