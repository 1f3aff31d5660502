// The common part of the peers' programs.
#include "benchmarks/peers/peer.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "tools/bench/lines.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

Task parse(std::vector<std::string> words) {
  Task task;
  std::erase_if(words, [&](const std::string& word) {
    const bool is_board = word.starts_with("board=");
    if (is_board) task.board = word.substr(6);
    return is_board;
  });
  for (auto from = words.begin();;) {
    const auto to = std::find(from, words.end(), "then");
    task.sweeps.push_back(parse_sweep(std::vector<std::string>(from, to)));
    if (to == words.end()) break;
    from = to + 1;
  }
  if (task.board.empty()) throw Error(Code::invalid, "this program is run by `tutti bench --versus`");
  return task;
}

}  // namespace

int peer_main(int count, char** words, const char* family, std::string (*about)(), int (*work)(const Task&)) {
  try {
    if (count == 2 && std::string(words[1]) == "about") {
      const std::string version = about();
      std::printf("%s: %s\n", family, version.substr(0, version.find('\n')).c_str());
      return 0;
    }
    return work(parse({words + 1, words + count}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", family, error.what());
    return 2;
  }
}

int measure_peer(Implementation& peer, const Task& task) {
  struct Printer {
    Implementation& peer;
    bool checked = true;
    bool right = true;
  } printer{peer};
  const auto each = [](const Row& row, void* context) {
    auto& to = *static_cast<Printer*>(context);
    to.right = to.right && row.out_of_place.wrong == 0 && row.in_place.wrong == 0;
    if (to.peer.rank() == 0) print_line(stdout, to.peer.name(), row, to.checked);
    std::fflush(stdout);
  };
  try {
    const auto board = open_shared_board(task.board, peer.rank(), peer.ranks());
    for (const Sweep& sweep : task.sweeps) {
      printer.checked = sweep.check;
      measure(peer, *board, sweep, each, &printer);
    }
    board->barrier();
    return printer.right ? 0 : 1;
  } catch (const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    const bool everywhere = ours && ours->code() == Code::invalid;
    if (peer.rank() == 0 || !everywhere) std::fprintf(stderr, "%s: %s\n", peer.name().c_str(), error.what());
    return everywhere ? 2 : 3;
  }
}

}  // namespace tutti::bench
