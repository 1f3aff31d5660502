// The sizes of a sweep, and the conversion of a sweep to words (key=value) and back.
#include "tools/bench/sweep.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "transports/core/layout.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

template <class T>
T number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Error(Code::invalid, "not a number: " + std::string(text));
  return value;
}

template <class T>
T known(const std::optional<T>& value, std::string_view text) {
  if (!value) throw Error(Code::invalid, "there is no " + std::string(text));
  return *value;
}

void take(Sweep& sweep, std::string_view key, std::string_view value) {
  if (key == "kind")
    sweep.kind = known(parse_collective(value), value);
  else if (key == "dtype")
    sweep.dtype = known(parse_dtype(value), value);
  else if (key == "op")
    sweep.op = reduction_of(known(parse_op(value), value));
  else if (key == "first")
    sweep.first = number<std::int64_t>(value);
  else if (key == "last")
    sweep.last = number<std::int64_t>(value);
  else if (key == "factor")
    sweep.factor = number<double>(value);
  else if (key == "skip")
    sweep.skip = number<int>(value);
  else if (key == "root")
    sweep.root = number<int>(value);
  else if (key == "iterations")
    sweep.iterations = number<int>(value);
  else if (key == "seconds")
    sweep.seconds = number<double>(value);
  else if (key == "warmup")
    sweep.warmup = number<int>(value);
  else if (key == "check")
    sweep.check = number<int>(value) != 0;
  else if (key == "touch")
    sweep.touch = number<int>(value) != 0;
  else if (key == "in_place")
    sweep.in_place = number<int>(value) != 0;
  else if (key == "overlap")
    sweep.overlap = value;
  else if (key == "late")
    sweep.late = number<double>(value);
  else
    throw Error(Code::invalid, "there is no " + std::string(key) + " in a sweep");
}

}  // namespace

std::vector<std::string> words_of(const Sweep& sweep) {
  const auto word = [](const char* key, std::int64_t value) { return key + ("=" + std::to_string(value)); };
  const auto real = [](const char* key, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%s=%.17g", key, value);  // enough digits to be parsed exactly
    return std::string(text);
  };
  std::vector<std::string> words = {"kind=" + std::string(collective_name(sweep.kind)),
                                    "dtype=" + std::string(name(sweep.dtype)),
                                    "op=" + std::string(name(sweep.op.op)),
                                    word("first", sweep.first),
                                    word("last", sweep.last),
                                    real("factor", sweep.factor),
                                    word("skip", sweep.skip),
                                    word("root", sweep.root),
                                    word("iterations", sweep.iterations),
                                    word("warmup", sweep.warmup),
                                    word("check", sweep.check),
                                    word("touch", sweep.touch),
                                    word("in_place", sweep.in_place)};
  if (!sweep.overlap.empty()) words.push_back("overlap=" + sweep.overlap);
  if (sweep.late > 0) words.push_back(real("late", sweep.late));
  if (sweep.seconds > 0) words.push_back(real("seconds", sweep.seconds));
  return words;
}

Sweep parse_sweep(std::span<const std::string> words) {
  Sweep sweep;
  for (const std::string& word : words) {
    const std::size_t equals = std::min(word.find('='), word.size() - 1);
    take(sweep, std::string_view(word).substr(0, equals), std::string_view(word).substr(equals + 1));
  }
  if (sweep.first < 1 || sweep.skip < 0 || !(sweep.factor >= least_factor))
    throw Error(Code::invalid, "the sizes would never grow");
  return sweep;
}

Reduction reduction_of(Op op) noexcept { return op == Op::premul_sum ? premul_sum(2.0) : Reduction{op}; }

std::string_view collective_name(Kind kind) noexcept { return kind == Kind::send ? "sendrecv" : name(kind); }

std::optional<Kind> parse_collective(std::string_view text) noexcept {
  if (text == "sendrecv") return Kind::send;
  const auto kind = parse_kind(text);
  return kind == Kind::send ? std::nullopt : kind;
}

bool Case::reduces() const noexcept { return folds(kind); }

std::size_t Case::in_count() const noexcept { return count * blocks_in(kind, ranks); }

std::size_t Case::out_count() const noexcept { return count * blocks_out(kind, ranks); }

std::size_t Case::bytes() const noexcept { return std::max(in_count(), out_count()) * size_of(dtype); }

double Case::bus_factor() const noexcept {
  const double others = ranks > 0 ? static_cast<double>(ranks - 1) / ranks : 0;
  switch (kind) {
    case Kind::allreduce: return 2 * others;
    case Kind::allgather:
    case Kind::reduce_scatter:
    case Kind::gather:
    case Kind::scatter:
    case Kind::alltoall: return others;
    default: return 1;
  }
}

std::vector<std::string> extra_names(const Sweep& sweep) {
  if (!sweep.overlap.empty()) return {"call_us", "compute_us", "overlap_pct", "slowdown"};
  if (sweep.late > 0) return {"waiting_cpu_pct", "all_out_us"};
  return {};
}

std::string mode_text(const Sweep& sweep) {
  if (!sweep.overlap.empty())
    return std::string("time: of a call with ") + (sweep.overlap == "idle" ? "a sleep" : "computing") +
           " of equal length between its start and the wait; overlap_pct: 100 * (1 - (time - compute_us) / call_us); "
           "slowdown: time / (call_us + compute_us)";
  if (sweep.late > 0)
    return "the last rank comes late; time: how long it is in the call; waiting_cpu_pct: what the worst of the others "
           "burns of a core; all_out_us: from the late entry to the last exit";
  return {};
}

std::vector<std::int64_t> sizes_of(const Sweep& sweep) {
  std::vector<std::int64_t> sizes;
  for (int i = sweep.skip;; ++i) {
    const double bytes = std::round(static_cast<double>(sweep.first) * std::pow(sweep.factor, i));
    if (bytes > static_cast<double>(sweep.last)) return sizes;
    sizes.push_back(static_cast<std::int64_t>(bytes));
  }
}

std::vector<Case> cases(const Sweep& sweep, int ranks) {
  Case next{sweep.kind, sweep.dtype, sweep.op, sweep.root, ranks};
  if (sweep.kind == Kind::barrier) return {next};
  next.count = 1;
  const std::size_t unit = std::max(next.in_count(), next.out_count()) * size_of(sweep.dtype);
  std::vector<Case> all;
  const std::size_t half = sweep.factor == std::floor(sweep.factor) ? 0 : unit / 2;
  for (const std::int64_t bytes : sizes_of(sweep)) {
    next.count = std::max<std::size_t>(1, (static_cast<std::size_t>(bytes) + half) / unit);
    if (all.empty() || all.back().count != next.count) all.push_back(next);
  }
  return all;
}

}  // namespace tutti::bench
