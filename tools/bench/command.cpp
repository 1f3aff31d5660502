// `tutti bench`: measures a collective; starts the ranks itself unless it is part of a job.
#include "tools/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cstdlib>

#include "benchmarks/versus/versus.hpp"
#include "tools/bench/explain.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/world.hpp"
#include "tools/options.hpp"
#include "tools/own_job.hpp"

namespace tutti::tools {
extern const Command bench_command;

namespace {

using namespace tutti::bench;

/// The environment variable from which the ranks read the board's path.
constexpr const char* board_variable = "BENCH_BOARD";

/// Replaces this process by a job whose ranks find a board in their environment.
[[noreturn]] void become_job_with_board(int ranks, const Settings& settings,
                                        const std::vector<std::string>& arguments) {
  const SharedMemory board = make_shared_memory(ranks);
  fcntl(board.fd, F_SETFD, 0);  // the process that becomes the launcher keeps it open for the ranks
  setenv(board_variable, board.path.c_str(), 1);
  std::vector<std::string> words = {"bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become_job(ranks, settings, words);
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
    become_job_with_board(ranks, request.settings, arguments);
  }
  Settings settings = request.settings;
  settings.explain = "off";  // the explanation is printed once for all sizes, before the table
  Communicator world = Communicator::from_env(settings);
  if (request.ranks > 0 && request.ranks != world.size())
    throw Error(Code::invalid, "-np " + std::to_string(request.ranks) + " inside a job of " +
                                   std::to_string(world.size()) + " ranks: leave -np out to measure the job");
  try {
    check_algorithm(request, world.size());
  } catch (const Error&) {
    if (world.rank() == 0) throw;
    throw Finished{2};  // all ranks fail alike, and rank 0 reports it
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
