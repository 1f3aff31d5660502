// Draws a scenario: first who takes part and how, then the faults, the groups and what they do.
#include "tests/chaos/scenario.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace tutti::testing {
namespace {

constexpr std::array kinds = {Kind::allreduce, Kind::reduce,  Kind::broadcast, Kind::allgather, Kind::reduce_scatter,
                              Kind::gather,    Kind::scatter, Kind::alltoall,  Kind::barrier};
constexpr std::array dtypes = {DType::i8,   DType::u8,  DType::i16, DType::i32, DType::i64, DType::f16,
                               DType::bf16, DType::f32, DType::f64, DType::u16, DType::u32, DType::u64};
constexpr std::array ops = {sum, avg, prod, min, max, band, bor, bxor, premul_sum(2)};

class Drawer {
 public:
  Drawer(std::uint64_t seed, bool processes) : dice_(seed, processes ? 1 : 0) {
    made_.seed = seed;
    made_.processes = processes;
  }

  Scenario draw() {
    ranks_and_transport();
    settings();
    faults();
    groups();
    acts();
    // A rank that others hold for lost before it has links with them cannot be told so, and goes on alone.
    const Chaos& chaos = made_.chaos;
    const bool may_part = chaos.cut.a >= 0 || (chaos.lose.rank >= 0 && chaos.lose.step <= 2);
    made_.shrinks = chance(60) && !may_part && chaos.stop.rank < 0 && !made_.refuses_memory();
    if (made_.shrinks) survival();
    return std::move(made_);
  }

 private:
  bool chance(int percent) { return dice_.percent(percent); }
  int below(std::size_t n) { return dice_.below(static_cast<int>(n)); }
  template <class List>
  auto one_of(const List& list) {
    return list[static_cast<std::size_t>(below(std::size(list)))];
  }

  void ranks_and_transport() {
    made_.ranks = 2 + below(made_.processes ? 5 : 8);
    static constexpr std::array in_processes = {"shm", "tcp", "hosts"};
    static constexpr std::array in_threads = {"inproc", "inproc", "inproc", "inproc", "shm", "shm", "tcp", "hosts"};
    made_.transport = made_.processes ? one_of(in_processes) : one_of(in_threads);
    const int first = 1 + below(static_cast<std::size_t>(made_.ranks - 1));
    const bool alternating = chance(30);
    for (int rank = 0; rank < made_.ranks; ++rank) made_.hosts.push_back(alternating ? rank % 2 : rank >= first);
  }

  void settings() {
    Settings& settings = made_.settings;
    settings.transport = made_.transport == "hosts" ? "shm,tcp" : made_.transport;
    settings.tuning = "off";
    settings.log = "off";
    settings.timeout = 60;
    settings.connect_timeout = 30;
    settings.verify = one_of(std::array{"light", "light", "full", "off"});
    if (chance(30)) settings.lane_bytes = 1024 << below(6);
    if (chance(30)) settings.max_lanes = 1 + below(8);
    if (chance(20)) settings.set("tcp_connections", std::to_string(1 + below(3)), "scenario");
  }

  void faults() {
    Chaos& chaos = made_.chaos;
    chaos.seed = dice_.next();
    made_.has_chaos = chance(85);
    if (!made_.has_chaos) return;
    if (chance(70)) chaos.delay = 1 + below(12);
    if (chance(70)) chaos.lazy = 1 + below(60);
    if (chance(60)) chaos.short_part = 1 + below(60);
    if (chance(60)) chaos.eintr = 1 + below(40);
    chaos.backend = chance(70);
    const int what = below(100);
    if (what < 45) return deadly_fault();
    if (what < 50 && made_.transport != "inproc") {
      if (chance(50))
        chaos.memory = 1 + below(30);
      else
        chaos.memory_nth = static_cast<std::uint64_t>(1 + below(40));
      made_.settings.connect_timeout = 3;
    }
  }

  void deadly_fault() {
    const auto step = static_cast<std::uint64_t>(1 + below(chance(50) ? 15 : 120));
    const int rank = below(static_cast<std::size_t>(made_.ranks));
    const bool may_kill = made_.processes || made_.transport == "inproc";
    const int what = below(100);
    if (made_.processes && what < 8) {
      made_.chaos.stop = {rank, step};
      made_.settings.timeout = 3;
    } else if (may_kill && what < 60) {
      made_.chaos.kill = {rank, step};
    } else if (what < 80) {
      made_.chaos.lose = {rank, step};
    } else {
      made_.chaos.cut = {rank, (rank + 1 + below(static_cast<std::size_t>(made_.ranks - 1))) % made_.ranks, step};
    }
  }

  void groups() {
    std::vector<int> all(static_cast<std::size_t>(made_.ranks));
    std::iota(all.begin(), all.end(), 0);
    made_.groups.push_back({GroupPlan::By::world, 0, all, {}});
    for (int more = below(5); more > 0; --more) make_group();
  }

  void make_group() {
    GroupPlan made;
    made.parent = below(made_.groups.size());
    const std::vector<int> from = made_.groups[static_cast<std::size_t>(made.parent)].members;
    made.by = one_of(std::array{GroupPlan::By::split, GroupPlan::By::split, GroupPlan::By::subgroup, GroupPlan::By::dup,
                                GroupPlan::By::group});
    if (made.by == GroupPlan::By::group && made_.may_fail()) made.by = GroupPlan::By::subgroup;
    const int colors = 1 + below(3);
    for (std::size_t i = 0; i < from.size(); ++i) {
      made.colors.push_back(i == 0 ? 0 : below(static_cast<std::size_t>(colors)));
      if (made.by == GroupPlan::By::dup || made.colors.back() == 0) made.members.push_back(from[i]);
    }
    if (made.by == GroupPlan::By::subgroup || made.by == GroupPlan::By::group)
      for (std::size_t i = made.members.size(); i > 1; --i)
        std::swap(made.members[i - 1], made.members[static_cast<std::size_t>(below(i))]);
    made_.groups.push_back(std::move(made));
  }

  void acts() {
    const int count = 2 + below(chance(20) ? 40 : 12);
    const int groups = static_cast<int>(made_.groups.size());
    int there = made_.may_fail() ? groups : 1;
    for (int group = 1; group < there; ++group) made_.acts.push_back({Act::What::make_group, group});
    for (int i = 0; i < count || there < groups; ++i) {
      if (there < groups && (i >= count || chance(30))) {
        made_.acts.push_back({Act::What::make_group, there++});
        continue;
      }
      Act act;
      act.group = below(static_cast<std::size_t>(there));
      act.tag = i + 1;
      fill(act, static_cast<int>(made_.groups[static_cast<std::size_t>(act.group)].members.size()));
      made_.acts.push_back(std::move(act));
    }
  }

  void fill(Act& act, int size) {
    const int what = below(100);
    if (what < 60) {
      act.calls.push_back(call(size));
    } else if (what < 70) {
      act.what = Act::What::batch;
      CallPlan one = call(size);
      for (int n = 1 + below(5); n > 0; --n) {
        if (chance(50)) one = call(size);
        one.seed = dice_.next();
        act.calls.push_back(one);
      }
    } else if (what < 90 || size == 1) {
      act.what = Act::What::messages;
      for (int n = 1 + below(8); n > 0; --n)
        act.messages.push_back({below(static_cast<std::size_t>(size)), below(static_cast<std::size_t>(size)), data()});
    } else {
      act.what = Act::What::any_source;
      const int to = below(static_cast<std::size_t>(size));
      const CallPlan common = data();
      for (int from = 0; from < size; ++from) {
        if (from == to || chance(20)) continue;
        act.messages.push_back({from, to, common});
        act.messages.back().data.seed = dice_.next();
      }
    }
  }

  CallPlan data() {
    CallPlan plan;
    plan.dtype = one_of(dtypes);
    plan.count = count();
    plan.seed = dice_.next();
    return plan;
  }

  CallPlan call(int size) {
    CallPlan plan = data();
    plan.kind = one_of(kinds);
    plan.root = below(static_cast<std::size_t>(size));
    plan.op = one_of(ops);
    const bool scales = plan.op.op == Op::avg || plan.op.op == Op::premul_sum;
    const bool is_wide = plan.dtype == DType::f32 || plan.dtype == DType::f64;
    if (!supports(plan.op.op, plan.dtype) || (scales && !is_wide)) plan.op = sum;
    plan.variable =
        chance(30) && (plan.kind == Kind::allgather || plan.kind == Kind::gather || plan.kind == Kind::scatter ||
                       plan.kind == Kind::reduce_scatter || plan.kind == Kind::alltoall);
    plan.in_place = chance(30);
    plan.shared = chance(15);
    return plan;
  }

  // Elements: none, few, around the limits of messages and engines, rarely many.
  std::size_t count() {
    static constexpr std::array<std::size_t, 10> limits = {64,   256,   1024,  2048,  4096,
                                                           8192, 16384, 32768, 65536, 131072};
    const int what = below(100);
    if (what < 8) return 0;
    if (what < 20) return 1;
    if (what < 60) return static_cast<std::size_t>(1 + below(100));
    if (what < 97)
      return limits[static_cast<std::size_t>(below(chance(80) ? 6 : limits.size()))] / 4 +
             static_cast<std::size_t>(below(3));
    return static_cast<std::size_t>(below(131072));
  }

  // A rank of the beginning lives: newcomers wait until one lets them in.
  void survival() {
    if (chance(50)) made_.newcomers = 1 + below(2);
    for (int i = 0; i < made_.newcomers; ++i) made_.hosts.push_back(below(2));
    if (!made_.processes || !chance(40)) return;
    const int first = made_.ranks >= 3 ? 0 : made_.ranks, end = made_.processes_in_all();
    if (first < end)
      made_.late = {first + below(static_cast<std::size_t>(end - first)), 1 + below(chance(50) ? 5'000 : 300'000)};
  }

  Dice dice_;
  Scenario made_;
};

}  // namespace

int GroupPlan::rank_of(int world) const {
  const auto found = std::ranges::find(members, world);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

Settings Scenario::settings_of(int process) const {
  Settings own = settings;
  if (has_chaos) own.chaos = to_string(chaos);
  if (transport == "hosts")
    own.host_id = "chaos-" + std::to_string(seed) + (hosts[static_cast<std::size_t>(process)] != 0 ? "-b" : "-a");
  return own;
}

std::string Scenario::text() const {
  std::string said = std::to_string(ranks) + " ranks over " + transport;
  if (transport == "hosts") {
    said += " (";
    for (const int host : hosts) said += host != 0 ? 'b' : 'a';
    said += ')';
  }
  said += ", " + std::to_string(groups.size()) + " groups, " + std::to_string(acts.size()) + " acts";
  if (shrinks) said += ", then shrinks";
  if (newcomers > 0) said += " and grows by " + std::to_string(newcomers);
  if (late.process >= 0)
    said += ", process " + std::to_string(late.process) + " dies " + std::to_string(late.microseconds) + " us later";
  return said + (has_chaos ? ", " + to_string(chaos) : std::string(", no chaos"));
}

Scenario draw_scenario(std::uint64_t seed, bool processes) { return Drawer(seed, processes).draw(); }

}  // namespace tutti::testing
