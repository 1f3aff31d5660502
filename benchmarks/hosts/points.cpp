// Measures tutti's algorithms beside one another in one job of several hosts; benchmarks/hosts/run starts it.
#include "benchmarks/hosts/points.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <sstream>

#include "collectives/plan/algorithm.hpp"
#include "tools/bench/explain.hpp"
#include "tools/bench/lines.hpp"
#include "tools/bench/world.hpp"
#include "tutti.hpp"

namespace tutti::bench {
namespace {

/// Makes the memory for the barriers and times of all ranks (a board), and keeps it until stdin ends.
int hold_board(int ranks) {
  const SharedMemory board = make_shared_memory(ranks);
  std::printf("%s\n", board.path.c_str());
  std::fflush(stdout);
  for (char byte = 0; read(STDIN_FILENO, &byte, 1) > 0;) continue;
  return 0;
}

/// The names of the algorithms to measure; "" stands for the one that tutti chooses.
std::vector<std::string> candidates(const Communicator& world, const Points& points) {
  std::vector<std::string> names = {""};
  if (points.others == "all") {
    const Topology places = world.topology();
    const Shape shape{.size = world.size(), .count = 1, .hosts = &places.hosts()};
    for (const Algorithm* one : catalog())
      if (one->kind == points.kind && (one->fits == nullptr || one->fits(shape))) names.emplace_back(one->name);
  } else if (points.others != "none") {
    std::istringstream parts(points.others);
    for (std::string part; std::getline(parts, part, ',');) names.push_back(part);
  }
  return names;
}

/// Does nothing, to measure what the loop takes by itself.
class Nothing : public Implementation {
 public:
  explicit Nothing(const Communicator& world) : world_(world) {}
  std::string name() const override { return "nothing"; }
  int rank() const override { return world_.rank(); }
  int ranks() const override { return world_.size(); }
  std::string refuses(const Case&) const override { return {}; }
  void run(const Case&, const std::byte*, std::byte*) override {}

 private:
  const Communicator& world_;
};

class Race {
 public:
  Race(const Communicator& world, const Points& points)
      : world_(world),
        points_(points),
        names_(candidates(world, points)),
        board_(open_shared_board(points.board, world.rank(), world.size())),
        order_(points.seed) {}

  /// Returns the exit code: 1 for wrong results.
  int run() {
    explain_choice(points_.sizes.front());
    Nothing nothing(world_);
    Sweep bare = sweep_of(points_.sizes.front());
    bare.check = false;
    measured(nothing, bare, nothing.name());
    for (const std::int64_t bytes : points_.sizes) {
      if (bytes != points_.sizes.front()) explain_choice(bytes);
      std::shuffle(names_.begin(), names_.end(), order_);  // the same on all ranks
      std::map<std::string, double> seconds;
      for (const std::string& name : names_) {
        const auto before = past_.find(name);
        if (before != past_.end() && !name.empty() && hopeless(before->second, bytes, points_.seconds)) continue;
        seconds[name] = measured(name, bytes);
      }
      remember(bytes, seconds);
    }
    board_->barrier();
    return right_ ? 0 : 1;
  }

 private:
  Sweep sweep_of(std::int64_t bytes) const {
    Sweep sweep;
    sweep.kind = points_.kind;
    sweep.first = sweep.last = bytes;
    sweep.warmup = 1;
    sweep.seconds = points_.seconds;
    sweep.in_place = false;
    return sweep;
  }

  void explain_choice(std::int64_t bytes) const {
    if (world_.rank() != 0) return;
    Request request;
    static_cast<Sweep&>(request) = sweep_of(bytes);
    for (const std::string& line : explain_sizes(world_, request)) std::printf("# %s\n", line.c_str());
  }

  double measured(const std::string& name, std::int64_t bytes) {
    Request request;
    static_cast<Sweep&>(request) = sweep_of(bytes);
    request.algorithm = name;
    return measured(*make_world(world_, request), request, name.empty() ? "chosen" : name);
  }

  double measured(Implementation& one, const Sweep& sweep, const std::string& name) {
    struct Seen {
      const std::string& name;
      bool prints, checked;
      double seconds = 0;
      bool right = true;
    } seen{name, world_.rank() == 0, sweep.check};
    const auto each = [](const Row& row, void* context) {
      auto& to = *static_cast<Seen*>(context);
      to.seconds = row.out_of_place.median;
      to.right = row.out_of_place.wrong == 0;
      if (to.prints) print_line(stdout, to.name, row, to.checked);
      std::fflush(stdout);
    };
    measure(one, *board_, sweep, each, &seen);
    right_ = right_ && seen.right;
    return seen.seconds;
  }

  void remember(std::int64_t bytes, const std::map<std::string, double>& seconds) {
    double best = seconds.begin()->second;
    for (const auto& [name, took] : seconds) best = std::min(best, took);
    for (const auto& [name, took] : seconds) past_[name] = {bytes, took, best};
  }

  const Communicator& world_;
  const Points& points_;
  std::vector<std::string> names_;
  std::unique_ptr<Board> board_;
  std::mt19937 order_;
  std::map<std::string, Past> past_;
  bool right_ = true;
};

int hosts_points(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "board") return hold_board(std::stoi(words[1]));
  const Points points = parse_points(words);
  Communicator world = Communicator::from_env();
  return Race(world, points).run();
}

}  // namespace
}  // namespace tutti::bench

int main(int count, char** words) {
  try {
    return tutti::bench::hosts_points({words + 1, words + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hosts_points: %s\n", error.what());
    return 2;
  }
}
