#include "tests/support/cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

#include "collectives/plan/algorithm.hpp"
#include "tests/support/require.hpp"

namespace tutti::testing {

std::vector<Case> cases(int p, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto n = static_cast<std::size_t>(p);
  const std::size_t counts[] = {0, 1, n - 1, n, n + 1, 1000, 4099, 9001};
  std::vector<Case> all;
  for (int k = 0; k < static_cast<int>(Kind::barrier); ++k)
    for (int d = 0; d < dtype_count; ++d)
      for (int o = 0; o < op_count; ++o) {
        const auto kind = static_cast<Kind>(k);
        const auto dtype = static_cast<DType>(d);
        const auto op = static_cast<Op>(o);
        if (folds(kind) ? !supports(op, dtype) : o > 0) continue;
        const bool has_v = kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast;
        for (int repeat = thinned ? static_cast<int>(random() % 2) : 0; repeat < 2; repeat += thinned ? 2 : 1)
          all.push_back({kind,
                         dtype,
                         {op, op == Op::premul_sum ? 0.5 : 1.0},
                         counts[random() % (thinned ? 7 : 8)],
                         static_cast<int>(random() % n),
                         repeat == 1,
                         has_v && random() % 3 == 0,
                         random()});
      }
  return all;
}

std::uint64_t case_seed() {
  const char* text = std::getenv("TUTTI_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20240607;
}

void play(Communicator& world, const std::vector<Case>& all, std::vector<std::uint64_t>& sums) {
  std::mt19937_64 random(static_cast<std::uint64_t>(world.rank()));
  sums.assign(all.size(), 0);
  for (std::size_t first = 0; first < all.size();) {
    const std::size_t batch = std::min<std::size_t>(1 + first % 5, all.size() - first);
    std::vector<std::unique_ptr<Played>> played;
    std::vector<Work> works;
    std::vector<std::size_t> order(batch);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = 0; i < batch; ++i) {
      played.push_back(std::make_unique<Played>(world, all[first + i]));
      works.push_back(played.back()->launch());
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      works[i].wait();
      if (const std::string bad = played[i]->check(sums[first + i]); !bad.empty())
        throw std::runtime_error(all[first + i].text() + ": " + bad);
    }
    first += batch;
  }
}

void play_alike(Communicator& world, const std::vector<Case>& all) {
  std::vector<std::uint64_t> sums;
  play(world, all, sums);
  std::vector<std::int64_t> mine(sums.begin(), sums.end()), least(mine.size()), most(mine.size());
  world.allreduce(mine, least, min).wait();
  world.allreduce(mine, most, max).wait();
  for (std::size_t i = 0; i < all.size(); ++i) require(least[i] == most[i], all[i].text() + ": ranks differ");
}

namespace {

bool has_v(Kind kind) { return kind != Kind::allreduce && kind != Kind::reduce && kind != Kind::broadcast; }

// Returns false if the call is refused.
bool play_one(Communicator& world, const Case& c) {
  if (c.variable && !has_v(c.kind)) return false;
  Played one(world, c);
  try {
    one.launch().wait();
  } catch (const Error& error) {
    const bool no_v_form = c.variable && error.code() == Code::invalid;
    if (error.code() != Code::unsupported && !no_v_form) throw;
    return false;
  }
  std::uint64_t sum = 0;
  if (const std::string bad = one.check(sum); !bad.empty())
    throw std::runtime_error(c.text() + " by " + c.algorithm + ": " + bad);
  const auto mine = static_cast<std::int64_t>(sum >> 1);
  if (c.kind == Kind::allreduce && world.allreduce(mine, max).wait() != mine)
    throw std::runtime_error(c.text() + " by " + c.algorithm + ": the ranks' results differ");
  return true;
}

}  // namespace

int play_targets(Communicator& world, const std::function<std::vector<std::string>(Kind)>& targets) {
  int played = 0;
  for (int k = 0; k < static_cast<int>(Kind::barrier); ++k) {
    const auto kind = static_cast<Kind>(k);
    for (const std::string& target : targets(kind))
      for (const std::size_t count : {std::size_t{7}, std::size_t{9001}})
        for (const int form : {0, 1, 2, 3})  // 1: in place; 2: v-form; 3: both
          played += play_one(world, {kind, DType::f32, folds(kind) ? avg : sum, count, world.size() - 1, form % 2 == 1,
                                     form > 1, count, target});
  }
  return played;
}

std::vector<std::string> planned_targets(Kind kind, int size, const std::vector<int>& hosts) {
  std::vector<std::string> names;
  const Hosts table(hosts, size);
  for (const Algorithm* one : catalog())
    if (one->kind == kind && (!one->fits || one->fits({.size = size, .count = 1, .hosts = &table})))
      names.emplace_back(one->name);
  return names;
}

namespace {

// Every rank sends a message to rank 0; two sums are launched as one call; two ranks make a group.
void play_from_anyone(Communicator& world) {
  const int p = world.size(), me = world.rank();
  std::vector<std::uint64_t> parts(static_cast<std::size_t>(p) * 50);
  std::vector<Value<int>> whose;
  const std::vector<std::uint64_t> own(50, std::uint64_t{1} << (me + 40));
  const Work to = world.send(own, 0, 4);
  for (int r = 0; r < p && me == 0; ++r)
    whose.push_back(world.recv_any(std::span(parts).subspan(static_cast<std::size_t>(r) * 50, 50), 4));
  for (std::size_t i = 0; i < whose.size(); ++i) {
    const int from = whose[i].wait();
    require(parts[i * 50 + 49] == std::uint64_t{1} << (from + 40), "a message from anyone");
  }
  to.wait();
  std::int64_t a = me, b = 1;
  Collective sums;
  sums.kind = Kind::allreduce;
  std::vector<Collective> both(2, sums);
  both[0].in = both[0].out = Buffer(&a, 1, DType::i64);
  both[1].in = both[1].out = Buffer(&b, 1, DType::i64);
  world.launch(std::span(both)).wait();
  require(a == p * (p - 1) / 2 && b == p, "two sums as one");
  if (me < 2) {
    Communicator first_two = world.group(p > 1 ? std::vector{1, 0} : std::vector{0}, "two");
    require(first_two.allreduce(1).wait() == std::min(p, 2), "a group of its members alone");
  }
}

}  // namespace

void play_the_rest(Communicator& world) {
  const int p = world.size(), me = world.rank();
  const auto require = [&](bool right, const char* what) {
    if (!right) throw std::runtime_error(what);
  };
  require(world.allreduce(me + 1).wait() == p * (p + 1) / 2, "scalar sum");
  require(world.allreduce(1.0f + static_cast<float>(me), max).wait() == static_cast<float>(p), "scalar max");
  require(world.broadcast(std::int64_t{me} * 7, p - 1).wait() == 7 * (p - 1), "scalar broadcast");
  world.barrier().wait();

  for (int by : {1, -1, 0, 2 * p + 1}) {
    std::vector<std::int32_t> data(5000, me);
    world.shift(data, data, by).wait();
    require(data[4999] == ((me - by) % p + p) % p, "shift in place");
  }
  std::vector<float> mine(100, static_cast<float>(me)), self(100);
  Work to = world.send(mine, me, 3), from = world.recv(self, me, 3);
  from.wait();
  to.wait();
  require(self == mine, "to oneself");

  play_from_anyone(world);

  auto half = world.split(me % 2, -me);  // reversed order
  require(half->size() == (p + 1 - me % 2) / 2, "size of a split");
  require(half->world_rank(half->rank()) == me, "rank in a split");
  require(
      half->allreduce(me).wait() ==
          [&] {
            int s = 0;
            for (int r = me % 2; r < p; r += 2) s += r;
            return s;
          }(),
      "sum in a split");
  auto none = world.split(me == 0 ? 0 : -1);
  require(none.has_value() == (me == 0), "a negative colour joins none");
  std::vector<int> listed;
  for (int r = p - 1; r >= 0; r -= 2) listed.push_back(r);
  if (auto some = world.subgroup(listed)) {
    require(some->world_rank(0) == p - 1, "order of a subgroup");
    some->barrier().wait();
  }
}

}  // namespace tutti::testing
