#include "engine/report/clocks.hpp"

#include <limits>
#include <vector>

namespace tutti::engine {

ClockOffset compare_clocks(Communicator& world, const PhaseClock::Now& now) {
  constexpr int questions = 8;
  std::vector<std::int64_t> message{0};
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank)
      for (int i = 0; i < questions; ++i) {
        world.recv(message, rank).wait();
        message[0] = now();
        world.send(message, rank).wait();
      }
    return {};
  }
  ClockOffset best{.ahead = 0, .error = std::numeric_limits<Nanoseconds>::max()};
  for (int i = 0; i < questions; ++i) {
    const Nanoseconds asked = now();
    world.send(message, 0).wait();
    world.recv(message, 0).wait();
    const Nanoseconds half = (now() - asked) / 2;
    if (half < best.error) best = {.ahead = asked + half - message[0], .error = half + 1};
  }
  if (best.ahead >= -best.error && best.ahead <= best.error) best.ahead = 0;
  return best;
}

}  // namespace tutti::engine
