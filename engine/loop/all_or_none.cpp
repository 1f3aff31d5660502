#include "engine/loop/all_or_none.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tutti::engine {

void all_or_none(Communicator& world, const std::function<void()>& step, const CallOptions& options) {
  std::string problem;
  std::int64_t code = 0;
  try {
    step();
  } catch (const Error& error) {
    if (error.code() != Code::invalid && error.code() != Code::resource) throw;
    problem = error.what();
    code = static_cast<std::int64_t>(error.code());
  }
  constexpr std::int64_t nobody = std::numeric_limits<std::int64_t>::max();
  const std::int64_t first = world.allreduce(code == 0 ? nobody : std::int64_t{world.rank()}, min, options).wait();
  if (first == nobody) return;
  const int culprit = static_cast<int>(first);
  std::vector<std::int64_t> facts{code, static_cast<std::int64_t>(problem.size())};
  world.broadcast(facts, culprit, options).wait();
  std::vector<std::uint8_t> text(problem.begin(), problem.end());
  text.resize(static_cast<std::size_t>(facts[1]));
  world.broadcast(text, culprit, options).wait();
  throw Error(static_cast<Code>(facts[0]), std::string(text.begin(), text.end()), culprit);
}

}  // namespace tutti::engine
