#include "engine/report/clocks.hpp"

#include <limits>
#include <vector>

namespace tutti::engine {
namespace {

constexpr int questions = 8;
static_assert(clock_messages(1, 2) == 2 * questions);

/// Replies to the child with this rank's time and with `own`, which this rank has already computed.
void answer(Communicator& world, int child, const ClockOffset& own, const PhaseClock::Now& now) {
  std::vector<std::int64_t> question{0}, reply{0, own.ahead, own.error};
  for (int i = 0; i < questions; ++i) {
    world.recv(question, child).wait();
    reply[0] = now();
    world.send(reply, child).wait();
  }
}

ClockOffset ask(Communicator& world, int parent, const PhaseClock::Now& now) {
  std::vector<std::int64_t> question{0}, reply(3);
  ClockOffset best{.ahead = 0, .error = std::numeric_limits<Nanoseconds>::max()};
  for (int i = 0; i < questions; ++i) {
    const Nanoseconds asked = now();
    world.send(question, parent).wait();
    world.recv(reply, parent).wait();
    const Nanoseconds half = (now() - asked) / 2;
    if (half < best.error) best = {.ahead = asked + half - reply[0], .error = half + 1};
  }
  best = {.ahead = best.ahead + reply[1], .error = best.error + reply[2]};
  if (best.ahead >= -best.error && best.ahead <= best.error) best.ahead = 0;
  return best;
}

}  // namespace

ClockOffset compare_clocks(Communicator& world, const PhaseClock::Now& now) {
  const Tree tree{world.size()};
  const int rank = world.rank(), joins = Tree::round_of(rank);
  ClockOffset own;
  for (int round = 0; round < tree.rounds(); ++round) {
    if (round == joins) own = ask(world, Tree::parent(rank), now);
    if (const int child = tree.child(rank, round); child >= 0) answer(world, child, own, now);
  }
  return own;
}

}  // namespace tutti::engine
