// `tutti bench`: measures a collective; starts the ranks by itself where it is not part of a job.
#include "tools/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tools/bench/explain.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/versus.hpp"
#include "tools/bench/world.hpp"
#include "tools/inside_a_job.hpp"
#include "tools/options.hpp"

namespace tutti::tools {
extern const Command bench_command;

namespace {

using namespace tutti::bench;

/// Our ranks find the board's path in this environment variable.
constexpr const char* board_variable = "BENCH_BOARD";

/// Replaces this process by `launcher` (a command line) with the board in the environment.
[[noreturn]] void launch_with_board(const std::vector<std::string>& launcher, int ranks) {
  const SharedMemory board = make_shared_memory(ranks);
  fcntl(board.fd, F_SETFD, 0);  // the process that becomes the launcher keeps it open for the ranks
  setenv(board_variable, board.path.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : launcher) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  throw Error(Code::resource, "cannot run " + launcher[0] + ": " + std::generic_category().message(errno));
}

int run(const std::vector<std::string>& arguments) {
  const Request request = parse_request("tutti bench", arguments);
  const int ranks = request.ranks > 0 ? request.ranks : 2;
  if (request.list_peers) return list_peers(request);
  if (request.compares()) {
    if (inside_a_job())
      throw Error(Code::invalid,
                  "a comparison starts its own ranks: run it by itself, not in a job, or leave out what "
                  "compares (--versus, --peer, --variants, --csv, --json, --svg, --plot)");
    check_algorithm(request, ranks);
    return compare(request, arguments);
  }
  const char* path = std::getenv(board_variable);
  if (!path && !inside_a_job()) {
    check_algorithm(request, ranks);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    std::vector<std::string> launcher = {self, "run", "-np", std::to_string(ranks), self, "bench"};
    launcher.insert(launcher.end(), arguments.begin(), arguments.end());
    launch_with_board(launcher, ranks);
  }
  Settings settings = request.settings;
  settings.explain = "off";  // it is said once, for all sizes, before the table
  Communicator world = Communicator::from_env(settings);
  if (request.ranks > 0 && request.ranks != world.size())
    throw Error(Code::invalid, "-np " + std::to_string(request.ranks) + " inside a job of " +
                                   std::to_string(world.size()) + " ranks: leave -np out to measure the job");
  try {
    check_algorithm(request, world.size());
  } catch (const Error&) {
    if (world.rank() == 0) throw;
    throw Finished{2};  // all ranks find the same, and one says it
  }
  const auto board = path ? open_shared_board(path, world.rank(), world.size()) : make_world_board(world);
  if (request.settings.explain == "on" && world.rank() == 0) {
    std::FILE* to = request.format == "human" ? stdout : stderr;
    for (const std::string& line : explain_sizes(world, request)) fmt::print(to, "# {}\n", line);
  }
  return measure_and_print(*make_world(world, request), *board, request);
}

}  // namespace

const Command bench_command = {"measure a collective, and compare with other libraries", run};

}  // namespace tutti::tools
