#include "tools/tune/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "tools/bench/explain.hpp"
#include "tools/bench/measure.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/world.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tune {
namespace {

constexpr double never_measured = std::numeric_limits<double>::infinity();
constexpr double far_behind = 4.0;  // times the best time; such a target is not measured again
constexpr int most_rounds = 9;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Disturbances on a shared machine only lengthen a round, so the lower quartile counts.
double lower_quartile(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 4];
}

}  // namespace

struct Tuner::Operands {
  bench::Pattern pattern;
  std::shared_ptr<std::byte> in, out;
};

Tuner::Tuner(const Communicator& ranks, std::vector<std::string> backends)
    : ranks_(ranks), backends_(std::move(backends)), board_(bench::make_world_board(ranks)) {}

std::vector<std::string> Tuner::candidates(Kind kind) const {
  std::vector<std::string> names;
  const Topology places = ranks_.topology();
  const Shape shape{.size = ranks_.size(), .count = 1, .hosts = &places.hosts()};
  for (const Algorithm* one : catalog())
    // On one host, an algorithm that distinguishes hosts equals another algorithm.
    if (one->kind == kind && (one->fits == nullptr || one->fits(shape)) &&
        (one->crossing == nullptr || places.hosts().count() > 1))
      names.emplace_back(one->name);
  for (const std::string& backend : backends_) {
    const Provider& provider = *find_provider(backend, ranks_.settings()).provider;
    for (const std::string_view one : provider.algorithms(kind))
      // Only a backend without a transport of its own gets rules that name its algorithm. Other backends choose their
      // algorithm themselves, partly by the kind of buffer.
      if (provider.make_backend != nullptr || one.empty())
        names.push_back(backend + (one.empty() ? "" : "/" + std::string(one)));
  }
  return names;
}

bench::Case Tuner::case_of(Kind kind, std::size_t bytes) const {
  bench::Case what;
  what.kind = kind;
  what.ranks = ranks_.size();
  what.count = kind == Kind::barrier ? 0 : std::max<std::size_t>(1, bytes / size_of(what.dtype));
  return what;
}

std::string Tuner::chosen(const bench::Case& what) const {
  constexpr std::string_view ours = "planned/";
  const auto memory =
      std::make_unique_for_overwrite<std::byte[]>(64 + (what.in_count() + what.out_count()) * size_of(what.dtype));
  const std::string why = bench::explain(ranks_, what, memory.get());
  const std::string target = why.substr(0, why.find(':'));
  return target.starts_with(ours) ? target.substr(ours.size()) : target;
}

double Tuner::once(const bench::Case& what, Operands& at, const std::string& target, int iterations) {
  std::byte *const in = at.in.get(), *const out = at.out.get();
  const bench::Operands operands = bench::operands(what, ranks_.rank(), in, out);
  const bench::CallBuffers buffers{ConstBuffer(operands.in, what.in_count(), what.dtype),
                                   Buffer(operands.out, what.out_count(), what.dtype)};
  std::vector<bench::Stamp> stamps;
  std::uint64_t wrong = 0;
  for (int i = 0; i < iterations; ++i) {
    at.pattern.fill(what, in, out, ++epoch_);
    board_->barrier();
    bench::Stamp stamp = bench::now_stamp();
    bench::start(ranks_, what, buffers, {.algorithm = target}).wait();
    stamp.left = bench::now_stamp().left;
    stamps.push_back(stamp);
    wrong += at.pattern.wrong(what, in, out, epoch_);
  }
  const double seconds = median(board_->durations(stamps));
  if (board_->sum(wrong) > 0)
    throw Error(Code::internal,
                fmt::format("{} by '{}' gave wrong results; please report this", name(what.kind), target));
  return seconds;
}

std::vector<double> Tuner::time(const bench::Case& what, const std::vector<std::string>& targets, double seconds) {
  Operands at{bench::Pattern(what, ranks_.rank()), bench::ordinary_memory(what.in_count() * size_of(what.dtype)),
              bench::ordinary_memory(what.out_count() * size_of(what.dtype))};
  std::vector<std::vector<double>> rounds(targets.size());
  std::vector<double> first;
  for (const std::string& target : targets) {
    once(what, at, target, 1);
    first.push_back(once(what, at, target, 1));
    // A short call is easily disturbed, and can be repeated cheaply.
    for (int again = 0; again < 4 && first.back() < 2e-3; ++again)
      first.back() = std::min(first.back(), once(what, at, target, 1));
  }
  const double best = *std::ranges::min_element(first);
  for (std::size_t i = 0; i < targets.size(); ++i)  // one disturbance does not exclude a candidate
    if (first[i] > far_behind * best) first[i] = std::min(first[i], once(what, at, targets[i], 1));
  // The rules' choice is never excluded, because the others are compared with it.
  const auto races = [&](std::size_t i) { return targets[i].empty() || first[i] <= far_behind * best; };
  double turn = 0;  // seconds of one call of each candidate that is left
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (races(i)) turn += first[i];
  // Short calls are repeated within a round; long ones get fewer rounds.
  const int in_all = std::clamp(static_cast<int>(seconds / std::max(turn, 1e-6)), 1, 200 * most_rounds);
  const auto agreed = static_cast<int>(board_->from_first(in_all));
  const int count = std::min(agreed, most_rounds), iterations = std::max(1, agreed / count);
  for (int round = 0; round < count; ++round)
    for (std::size_t i = 0; i < targets.size(); ++i)
      if (races(i)) rounds[i].push_back(once(what, at, targets[i], iterations));
  std::vector<double> times;
  for (const auto& measured : rounds) times.push_back(measured.empty() ? never_measured : lower_quartile(measured));
  return times;
}

std::vector<std::size_t> Tuner::as_on_the_first(std::vector<std::size_t> numbers) {
  numbers.resize(static_cast<std::size_t>(board_->from_first(static_cast<std::int64_t>(numbers.size()))));
  for (std::size_t& one : numbers) one = static_cast<std::size_t>(board_->from_first(static_cast<std::int64_t>(one)));
  return numbers;
}

}  // namespace tutti::tune
