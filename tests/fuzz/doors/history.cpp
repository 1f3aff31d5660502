// The inputs of plots: the course of a run in its folder, and the lines of a benchmark.
#include "tools/plot/history.hpp"

#include "tests/fuzz/door.hpp"
#include "tools/bench/lines.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  write(folder() / "metrics.csv", input);
  const bool lines = !bench::parse_csv(std::string(text_of(input))).empty();
  return !refuses([&] { plot::read_history(folder()); }, folder().string()) || lines;
}

}  // namespace tutti::fuzz
