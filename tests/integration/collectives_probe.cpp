// Makes every collective, by the rules and by every algorithm, with any launcher, and checks all results.
//
//   collectives_probe             prints "played N calls by M algorithms on R ranks of H hosts" at rank 0, exits 0
//   collectives_probe --who       by the rules alone; also prints each rank, "rank 1 of 4 by SLURM local 1 of 2"
//   collectives_probe --routes    also prints each rank's routes, "rank 3: shm, shm, self, tcp 10.88.0.2:..."
//   collectives_probe --crossing  compares what the hosts have sent over their interface common0 with the formula of
//                                 every algorithm that has one; prints "KIND ALGORITHM SENT FORMULA" at rank 0
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "collectives/plan/algorithm.hpp"
#include "tests/support/played.hpp"
#include "tests/support/thinned.hpp"
#include "transports/core/host.hpp"
#include "tutti.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/topology.hpp"

namespace {

using namespace tutti;
using namespace tutti::testing;

/// Returns a number for each rank, which is equal for ranks of the same host.
std::vector<int> hosts_of_ranks(Communicator& world) {
  const std::string identity = host_identity(world.settings().host_id);
  std::vector<std::int64_t> mine = {
      static_cast<std::int64_t>(checksum(reinterpret_cast<const std::byte*>(identity.data()), identity.size()))};
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.allgather(mine, all).wait();
  std::vector<int> numbers;
  for (const std::int64_t host : all)
    numbers.push_back(static_cast<int>(std::find(all.begin(), all.end(), host) - all.begin()));
  return numbers;
}

class Probe {
 public:
  explicit Probe(Communicator& world) : world_(world), host_(hosts_of_ranks(world)), hosts_(host_, world.size()) {}

  void play_by_rules() {
    for (int k = 0; k < static_cast<int>(Kind::barrier); ++k) play_kind(static_cast<Kind>(k), "", true);
    play_point_to_point();
  }

  void play_by_name() {
    for (const Algorithm* algorithm : catalog()) {
      if (!fits(*algorithm, 1000)) continue;
      ++algorithms_;
      if (algorithm->kind == Kind::barrier)
        count(world_.barrier({.algorithm = std::string(algorithm->name)}), algorithm->name);
      else
        play_kind(algorithm->kind, std::string(algorithm->name), algorithm->variable);
    }
  }

  void compare_crossings() {
    constexpr std::size_t share = 1 << 17;  // elements of one rank
    for (const Algorithm* algorithm : catalog()) {
      const bool whole =
          algorithm->kind == Kind::allreduce || algorithm->kind == Kind::reduce || algorithm->kind == Kind::broadcast;
      const std::size_t n = whole ? share * static_cast<std::size_t>(world_.size()) : share;
      if (!algorithm->crossing || algorithm->kind == Kind::barrier || !fits(*algorithm, n)) continue;
      Case c{algorithm->kind, DType::i32, sum, n, 0, false, false, 7, std::string(algorithm->name)};
      Played played(world_, c);
      const std::int64_t sent = sent_by_hosts([&] { played.launch().wait(); });
      std::uint64_t ignored = 0;
      judge(played.check(ignored), c.text() + " by " + c.algorithm);
      const Crossing formula = crossing_of(*algorithm, shape(n));
      if (world_.rank() == 0)
        std::printf("%s %s %lld %zu\n", std::string(name(c.kind)).c_str(), c.algorithm.c_str(),
                    static_cast<long long>(sent), formula.total * sizeof(std::int32_t));
    }
  }

  /// Returns the exit code, which is the same on all ranks.
  int report() {
    const int wrong = world_.allreduce(wrong_).wait();
    if (world_.rank() == 0 && wrong == 0)
      std::printf("played %d calls by %d algorithms on %d ranks of %d hosts\n", played_, algorithms_, world_.size(),
                  hosts_.count());
    return wrong == 0 ? 0 : 1;
  }

 private:
  Shape shape(std::size_t n) const { return {.rank = 0, .size = world_.size(), .count = n, .hosts = &hosts_}; }
  bool fits(const Algorithm& algorithm, std::size_t n) const { return !algorithm.fits || algorithm.fits(shape(n)); }

  void play_kind(Kind kind, const std::string& algorithm, bool variable) {
    const bool rooted =
        kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
    const bool has_v = kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast;
    std::uint64_t seed = 1;
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{20011}})
      for (int root = 0; root < (rooted ? world_.size() : 1); ++root) {
        if (thinned && (n != 1000 || (rooted && root != world_.size() / 2))) continue;
        const bool in_place = (++seed & 1) != 0;
        play({kind, DType::f32, sum, n, root, in_place, false, seed, algorithm});
        if (folds(kind)) play({kind, DType::i16, max, n, root, !in_place, false, seed, algorithm});
        if (variable && has_v) play({kind, DType::f32, sum, n, root, !in_place, true, seed, algorithm});
      }
  }

  void play(const Case& c) {
    Played played(world_, c);
    played.launch().wait();
    std::uint64_t sum_of_bits = 0;
    const std::string by = c.text() + (c.algorithm.empty() ? " by the rules" : " by " + c.algorithm);
    judge(played.check(sum_of_bits), by);
    std::vector<std::int64_t> mine = {static_cast<std::int64_t>(sum_of_bits)};
    std::vector<std::int64_t> all(static_cast<std::size_t>(world_.size()));
    world_.allgather(mine, all).wait();
    judge(std::count(all.begin(), all.end(), mine[0]) == world_.size() ? "" : "the ranks have different bits", by);
    ++played_;
  }

  void play_point_to_point() {
    const int size = world_.size(), me = world_.rank();
    for (int distance = 1; distance < size; ++distance) {
      std::vector<std::int32_t> data(3000, me);
      count(world_.shift(data, data, distance), "shift");
      judge(data[2999] == (me - distance + size) % size ? "" : "the wrong data came", "shift");
    }
    std::vector<float> token(1, 1.0f);
    if (me > 0) world_.recv(token, me - 1, 5).wait();
    token[0] += 1;
    if (me + 1 < size) world_.send(token, me + 1, 5).wait();
    judge(token[0] == static_cast<float>(me + 2) ? "" : "a message was lost", "send and recv");
    count(world_.barrier(), "barrier");
  }

  void count(Work work, std::string_view) {
    work.wait();
    ++played_;
  }

  void judge(const std::string& fault, const std::string& what) {
    if (fault.empty()) return;
    if (++wrong_ <= 5) std::printf("rank %d: %s: %s\n", world_.rank(), what.c_str(), fault.c_str());
  }

  /// Returns the bytes that all hosts together send over common0 during `call`, including packet headers.
  template <class Call>
  std::int64_t sent_by_hosts(Call&& call) {
    world_.barrier().wait();
    const std::int64_t before = sent();
    world_.barrier().wait();
    call();
    world_.barrier().wait();
    const std::int64_t mine = hosts_.index_of(world_.rank()) == 0 ? sent() - before : 0;
    return world_.allreduce(mine).wait();
  }

  static std::int64_t sent() {
    std::ifstream file("/proc/self/net/dev");
    for (std::string word; file >> word;) {
      if (word != "common0:") continue;
      std::int64_t value = 0;
      for (int column = 0; column < 9; ++column) file >> value;  // eight columns of received data, then the bytes sent
      return value;
    }
    throw Error(Code::invalid, "there is no interface common0 here");
  }

  Communicator& world_;
  const std::vector<int> host_;
  const Hosts hosts_;
  int played_ = 0, algorithms_ = 0, wrong_ = 0;
};

void print_self(const Bootstrap& self) {
  char line[256];
  const int n = std::snprintf(line, sizeof line, "rank %d of %d by %s local %d of %d\n", self.rank, self.size,
                              self.launcher.c_str(), self.local_rank, self.local_size);
  static_cast<void>(!write(STDOUT_FILENO, line, static_cast<std::size_t>(n)));
}

void print_routes(Communicator& world) {
  std::string line = "rank " + std::to_string(world.rank()) + ":";
  for (const std::string& route : world.routes()) line += " " + route + ",";
  line.back() = '\n';
  static_cast<void>(!write(STDOUT_FILENO, line.data(), line.size()));
}

}  // namespace

int main(int count, char** words) {
  const std::string asked = count > 1 ? words[1] : "";
  try {
    const Bootstrap self = bootstrap_from_environment(Settings::from_environment());
    auto world = Communicator::connect(self);
    if (asked == "--who") print_self(self);
    Probe probe(world);
    if (asked == "--crossing") {
      probe.compare_crossings();
    } else {
      probe.play_by_rules();
      if (asked != "--who") probe.play_by_name();
    }
    if (asked == "--routes") print_routes(world);
    return probe.report();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == Code::invalid ? 2 : 1;
  }
}
