// The measuring loop: barrier, stamp, call, stamp; between iterations new inputs and a look at every output.
#include "tools/bench/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "tools/bench/pattern.hpp"
#include "transports/core/status.hpp"

namespace tutti::bench {
namespace {

/// Pages' worth of bytes, aligned to a cache line, present before the first iteration.
struct Memory {
  explicit Memory(std::size_t bytes)
      : size(std::max<std::size_t>(bytes, 64)), data(static_cast<std::byte*>(operator new(size, alignment))) {
    std::fill(data, data + size, std::byte{});
  }
  ~Memory() { operator delete(data, alignment); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  static constexpr std::align_val_t alignment{4096};
  std::size_t size;
  std::byte* data;
};

class Loop {
 public:
  Loop(Implementation& implementation, Board& board, const Request& request)
      : implementation_(implementation), board_(board), request_(request) {}

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
        if (touch && request_.check) result.wrong += pattern.wrong(what, in, out, epoch_);
      }
      std::vector<double> seconds = board_.durations(stamps);
      std::sort(seconds.begin(), seconds.end());
      return seconds;
    };
    const std::vector<double> warm = iterate(std::max(1, request_.warmup), request_.touch);
    const std::vector<double> seconds = iterate(iterations(warm[warm.size() / 2]), request_.touch);
    result.min = seconds.front();
    result.median = seconds[seconds.size() / 2];
    result.p99 = seconds[std::min(seconds.size() - 1, seconds.size() * 99 / 100)];
    result.iterations = static_cast<int>(seconds.size());
    if (!request_.touch && request_.check) iterate(1, true);
    result.wrong = board_.sum(result.wrong);
    return result;
  }

 private:
  int iterations(double seconds) {
    const int by_time = static_cast<int>(std::clamp(0.1 / std::max(seconds, 1e-7), 20.0, 2000.0));
    const int wanted = request_.iterations > 0 ? request_.iterations : by_time;
    return static_cast<int>(board_.from_first(std::min<std::int64_t>(wanted, max_iterations)));
  }

  Implementation& implementation_;
  Board& board_;
  const Request& request_;
  unsigned epoch_ = 0;
};

}  // namespace

void measure(Implementation& implementation, Board& board, const Request& request, void (*each)(const Row&, void*),
             void* context) {
  const std::vector<Case> all = cases(request, implementation.ranks());
  if (request.root < 0 || request.root >= implementation.ranks())
    throw Error(Code::invalid, "--root is not one of the ranks; there are " + std::to_string(implementation.ranks()));
  std::size_t in_bytes = 0, out_bytes = 0;
  for (const Case& what : all) {
    in_bytes = std::max(in_bytes, what.in_count() * size_of(what.dtype));
    out_bytes = std::max(out_bytes, what.out_count() * size_of(what.dtype));
  }
  Memory in(in_bytes), out(out_bytes);
  Loop loop(implementation, board, request);
  for (const Case& what : all) {
    if (const std::string why = implementation.refuses(what); !why.empty()) throw Error(Code::invalid, why);
    Row row{what, loop.measure(what, in.data, out.data), {}};
    Case in_place = what;
    in_place.in_place = true;
    // A barrier has no buffers, a broadcast is always in place, and so is what sends from where it receives.
    row.has_in_place = what.kind != Kind::barrier && what.kind != Kind::broadcast && what.kind != Kind::send &&
                       implementation.refuses(in_place).empty();
    if (row.has_in_place) row.in_place = loop.measure(in_place, in.data, out.data);
    each(row, context);
  }
}

void launch_with_board(const std::vector<std::string>& launcher, int ranks) {
  setenv(board_variable, make_shared_memory(ranks).c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : launcher) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw Error(Code::resource, "cannot run " + launcher[0] + ": " + std::generic_category().message(errno));
}

}  // namespace tutti::bench
