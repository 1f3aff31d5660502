// A late rank: over how many links the other ranks learn which rank is late, and how many messages that takes.
#include <algorithm>
#include <chrono>
#include <deque>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <utility>

#include "benchmarks/growth/jobs.hpp"
#include "benchmarks/growth/law.hpp"
#include "collectives/plan/algorithm.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::growth {
namespace {

/// Simulates a call that all ranks except one have made: plays the schedules of its algorithm until only the late rank
/// could continue them. Messages are small, so a sender does not wait.
class Stuck {
 public:
  Stuck(const Algorithm& algorithm, int size, int late) : late_(late) {
    for (int rank = 0; rank < size; ++rank)
      ranks_.push_back({algorithm.plan({.rank = rank, .size = size, .count = static_cast<std::size_t>(size)})});
    for (int rank = 0; rank < size; ++rank)
      if (rank != late) send(rank);
    for (int rank = 0; rank < size; ++rank) work_.push_back(rank);
    for (; !work_.empty(); work_.pop_front()) go_on(work_.front());
  }

  /// The ranks for which `rank` waits; none if it is done.
  std::vector<int> awaited_by(int rank) const {
    std::vector<int> peers;
    for (const auto& [peer, messages] : wanted(rank))
      if (rank != late_ && there(peer, rank) < messages) peers.push_back(peer);
    return peers;
  }

  /// The largest number of links (from a rank to one that waits for it) between the late rank and any other rank.
  int links() const {
    std::vector<std::vector<int>> askers(ranks_.size());
    for (int rank = 0; rank < size(); ++rank)
      for (const int peer : awaited_by(rank)) askers[index(peer)].push_back(rank);
    std::vector<int> away(ranks_.size(), -1);
    std::deque<int> next{late_};
    away[index(late_)] = 0;
    int most = 0;
    for (; !next.empty(); next.pop_front())
      for (const int asker : askers[index(next.front())])
        if (away[index(asker)] < 0) {
          most = away[index(asker)] = away[index(next.front())] + 1;
          next.push_back(asker);
        }
    for (int rank = 0; rank < size(); ++rank)
      if (rank != late_ && !done(rank) && away[index(rank)] < 0)
        throw std::logic_error("rank " + std::to_string(rank) + " is not told who is late");
    return most;
  }

 private:
  struct Player {
    Schedule plan;
    int round = 0;
  };
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool done(int rank) const { return ranks_[index(rank)].round == ranks_[index(rank)].plan.rounds(); }
  std::uint64_t link(int from, int to) const { return index(from) * ranks_.size() + index(to); }
  int there(int from, int to) const {
    const auto found = messages_.find(link(from, to));
    return found == messages_.end() ? 0 : found->second;
  }

  /// The number of messages that the rank's current round needs, by sender.
  std::vector<std::pair<int, int>> wanted(int rank) const {
    std::vector<std::pair<int, int>> senders;
    const Player& player = ranks_[index(rank)];
    if (done(rank)) return senders;
    player.plan.play(player.round, [&](const Step& step) {
      if (step.verb != Step::Verb::recv && step.verb != Step::Verb::recv_reduce) return;
      const auto found = std::ranges::find(senders, step.peer, [](const auto& one) { return one.first; });
      if (found == senders.end())
        senders.emplace_back(step.peer, 1);
      else
        ++found->second;
    });
    return senders;
  }

  void send(int rank) {
    const Player& player = ranks_[index(rank)];
    if (done(rank)) return;
    player.plan.play(player.round, [&](const Step& step) {
      if (step.verb != Step::Verb::send) return;
      ++messages_[link(rank, step.peer)];
      work_.push_back(step.peer);
    });
  }

  void go_on(int rank) {
    while (rank != late_ && !done(rank) && awaited_by(rank).empty()) {
      for (const auto& [peer, messages] : wanted(rank)) messages_[link(peer, rank)] -= messages;
      ++ranks_[index(rank)].round;
      send(rank);
    }
  }

  const int late_;
  std::vector<Player> ranks_;
  std::unordered_map<std::uint64_t, int> messages_;  // by link: sent, and not yet received
  std::deque<int> work_;                             // ranks that may go on
};

/// The mean number of control messages that a rank sends while all wait in a barrier for one rank that is 1 s late.
double questions_of_a_rank(std::int64_t ranks) {
  const auto size = static_cast<int>(ranks);
  const auto controls = [] {
    Settings settings;
    settings.module_path = TUTTI_TEST_MODULES;
    return std::stod(find_provider("counted", settings).provider->details(settings).front());
  };
  const std::shared_ptr<Store> store = make_local_store();
  double before = 0, after = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      Communicator world = world_of_thread(store, rank, size, "counted", TUTTI_TEST_MODULES);
      for (int i = 0; i < 2; ++i) world.barrier().wait();
      if (rank == 0) before = controls();
      world.barrier().wait();
      if (rank == size / 3) std::this_thread::sleep_for(std::chrono::seconds(1));
      world.barrier().wait();
      if (rank == 0) after = controls();
      world.barrier().wait();
    });
  for (std::thread& thread : threads) thread.join();
  return (after - before) / static_cast<double>(size);
}

Law links_law(Kind kind, const char* algorithm, std::vector<std::int64_t> sizes, double exponent, double bound) {
  return {"late rank",
          "links until all know who is late (" + std::string(name(kind)) + ", " + algorithm + ")",
          How::simulated,
          std::move(sizes),
          [kind, algorithm](std::int64_t n) {
            const auto size = static_cast<int>(n);
            return static_cast<double>(Stuck(*find_algorithm(kind, algorithm), size, size / 3).links());
          },
          exponent,
          bound};
}

}  // namespace

std::vector<Law> late_laws() {
  const std::vector<std::int64_t> sizes = {64, 1024, 8192, 65536};
  return {
      links_law(Kind::barrier, "dissemination", sizes, 0.15, 16),
      links_law(Kind::allreduce, "tree", sizes, 0.2, 32),
      links_law(Kind::allreduce, "ring", {64, 1024}, 1.01, 1024),
      {"late rank", "control messages of a rank in a barrier for which one is 1 s late", How::threads,
       std::vector<std::int64_t>{64, 256, 1024}, questions_of_a_rank, 0.5, 64},  // larger if the machine is busy
  };
}

}  // namespace tutti::growth
