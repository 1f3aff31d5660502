// The ledger (the record of workers' steps): each step of each share is done once, whatever happens to workers.
#include "engine/server/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using What = Ledger::Deal::What;

/// A share of `epochs` epochs with `each` steps.
Ledger::Share share(std::int64_t each, std::int64_t epochs) { return {each * epochs, each}; }

TEST(Ledger, DealsOutWhatADeadWorkerHadNotPushed) {
  Ledger ledger({share(3, 2), share(3, 2)});
  ledger.pushed(1, 2);
  EXPECT_EQ(ledger.ask(0, 3, 0, false).what, What::none) << "nobody waits before the end";
  ledger.gone(1, Parting::died);
  const Ledger::Deal deal = ledger.ask(0, 3, 0, false);
  EXPECT_EQ(deal.what, What::take);
  EXPECT_EQ(deal.step.worker, 1);
  EXPECT_EQ(deal.step.number, 2);
  EXPECT_EQ(ledger.ask(0, 4, 0, false).what, What::none) << "the other steps are of the next epoch";
  for (std::int64_t number = 3; number < 6; ++number) EXPECT_EQ(ledger.ask(0, 4 + number, 1, true).step.number, number);
  EXPECT_EQ(ledger.ask(0, 10, 1, true).what, What::none);
  const Ledger::Fate fate = ledger.fate(1);
  EXPECT_FALSE(fate.is_there);
  EXPECT_EQ(fate.own, 2);
  EXPECT_EQ(fate.missing, 0);
  EXPECT_EQ(ledger.fate(0).taken, 4);
}

TEST(Ledger, HasWorkersStayUntilTheOthersAreThroughOrDead) {
  Ledger ledger({share(2, 1), share(2, 1), share(2, 1)});
  EXPECT_EQ(ledger.ask(0, 2, 0, true).what, What::wait);
  EXPECT_EQ(ledger.ask(1, 2, 0, true).what, What::wait);
  ledger.gone(2, Parting::silent);
  EXPECT_EQ(ledger.ask(1, 2, 0, true).step.number, 0);
  EXPECT_EQ(ledger.ask(0, 2, 0, true).step.number, 1);
  EXPECT_EQ(ledger.ask(0, 3, 0, true).what, What::wait) << "the other one has still to do what it took";
  ledger.pushed(1, 2);
  ledger.gone(1, Parting::died);  // worker 1 dies before it has pushed the step that it took
  const Ledger::Deal again = ledger.ask(0, 3, 0, true);
  EXPECT_EQ(again.step.worker, 2);
  EXPECT_EQ(again.step.number, 0);
  EXPECT_EQ(ledger.ask(0, 4, 0, true).what, What::none);
  EXPECT_EQ(ledger.own_pushed(1), 2);
}

TEST(Ledger, DealsNothingThatADeadWorkerHasInARound) {
  for (const bool closes_first : {false, true}) {
    Ledger ledger({share(4, 1), share(4, 1)});
    ledger.gone(1, Parting::died, 2);
    if (closes_first) ledger.pushed(1, 2);
    EXPECT_EQ(ledger.ask(0, 4, 0, true).step.number, 2);
    EXPECT_EQ(ledger.ask(0, 5, 0, true).step.number, 3);
    EXPECT_EQ(ledger.ask(0, 6, 0, true).what, What::none);
    EXPECT_EQ(ledger.fate(1).own, closes_first ? 2 : 0);
    ledger.pushed(1, closes_first ? 0 : 2);
    EXPECT_EQ(ledger.fate(1).own, 2);
    EXPECT_EQ(ledger.ask(0, 6, 0, true).what, What::none);
  }
}

TEST(Ledger, HasTheFirstThatLivesTellOfTheRun) {
  Ledger ledger(std::vector<Ledger::Share>(3));
  EXPECT_EQ(ledger.teller(), 0);
  ledger.gone(1, Parting::died);
  EXPECT_EQ(ledger.teller(), 0);
  ledger.gone(0, Parting::silent);
  EXPECT_EQ(ledger.teller(), 2);
  ledger.gone(2, Parting::left);
  EXPECT_EQ(ledger.teller(), 2);
}

TEST(Ledger, CountsRoundsOfFewerThanHalf) {
  Ledger ledger(std::vector<Ledger::Share>(4));
  for (const std::size_t participants : {4, 2, 1, 3}) ledger.round(participants);
  EXPECT_EQ(ledger.rounds().all, 4);
  EXPECT_EQ(ledger.rounds().small, 1);
}

TEST(Ledger, TakesNothingFromOneThatHasLeft) {
  Ledger ledger({share(4, 1), share(4, 1)});
  ledger.gone(1, Parting::left);
  EXPECT_EQ(ledger.ask(0, 4, 0, true).what, What::none);
}

/// How often each step was done, by worker and step number.
using Done = std::map<std::pair<int, std::int64_t>, int>;

struct Player {
  std::int64_t own = 0, steps = 0;
  std::vector<DealtStep> unpushed = {};
  bool is_there = true;
};

/// One worker does one step, or asks in vain. Returns false if it has none left.
bool play(Ledger& ledger, int who, Player& player, std::int64_t each, std::int64_t total, Done& done, bool pushes) {
  const bool ends_epoch = player.own % each == 0 && player.own > 0;
  const bool is_last = player.own == total;
  DealtStep step{who, player.own};
  bool is_taken = false;
  if (ends_epoch) {
    const Ledger::Deal deal = ledger.ask(who, player.steps, player.own / each - 1, is_last);
    if (deal.what == What::take) step = deal.step;
    is_taken = deal.what == What::take;
    if (is_last && !is_taken) return deal.what == What::wait;
  }
  player.own += is_taken ? 0 : 1;
  ++player.steps;
  player.unpushed.push_back(step);
  if (!pushes) return true;
  ledger.pushed(who, player.unpushed.size());
  for (const DealtStep& one : player.unpushed) ++done[{one.worker, one.number}];
  player.unpushed.clear();
  return true;
}

TEST(Ledger, LosesAndDoublesNothingWhoeverDies) {
  constexpr int workers = 5;
  constexpr std::int64_t each = 7, total = 21;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Ledger ledger(std::vector<Ledger::Share>(workers, share(each, total / each)));
    std::vector<Player> players(workers);
    Done done;
    int alive = workers;
    for (int still = 0; still < 100 * workers;) {  // until no worker has done a step for some time
      const int who = static_cast<int>(random() % workers);
      Player& player = players[static_cast<std::size_t>(who)];
      if (player.is_there && alive > 1 && random() % 40 == 0) {
        player.is_there = false;
        --alive;
        const std::size_t waiting = random() % (player.unpushed.size() + 1);  // how many of its steps wait in a round
        ledger.gone(who, Parting::died, waiting);
        player.unpushed.resize(waiting);
      }
      // After its own steps a worker always pushes, so that no step stays unpushed at the end.
      const bool pushes = player.own == total || random() % 3 == 0;
      const std::int64_t before = player.steps;
      if (player.is_there) play(ledger, who, player, each, total, done, pushes);
      still = player.steps > before ? 0 : still + 1;
    }
    for (int who = 0; who < workers; ++who) {
      const Player& player = players[static_cast<std::size_t>(who)];
      for (const DealtStep& one : player.unpushed) ++done[{one.worker, one.number}];
      if (!player.is_there) ledger.pushed(who, player.unpushed.size());
      EXPECT_EQ(ledger.fate(who).missing, 0) << "seed " << seed;
    }
    EXPECT_EQ(done.size(), workers * total) << "seed " << seed;
    for (const auto& [step, times] : done) EXPECT_EQ(times, 1) << "seed " << seed;
  }
}

TEST(Ledger, GivesAWorkerThatJoinsWhatNobodyHasClaimed) {
  Ledger ledger({share(6, 2), share(6, 2)}, true);
  EXPECT_EQ(ledger.claim(0, 0, 2), 2);
  EXPECT_EQ(ledger.claim(1, 0, 4), 4);
  ledger.comes(2);
  EXPECT_EQ(ledger.own_pushed(2), 0) << "it has no share";
  const auto taken = [&](std::int64_t done) {
    const Ledger::Deal deal = ledger.ask(2, done, 1, true);
    EXPECT_EQ(deal.what, What::take);
    return std::pair(deal.step.worker, deal.step.number);
  };
  EXPECT_EQ(taken(0), std::pair(0, std::int64_t{5})) << "worker 0 has most to do in its epoch";
  EXPECT_EQ(taken(1), std::pair(0, std::int64_t{4}));
  EXPECT_EQ(taken(2), std::pair(0, std::int64_t{3}));
  EXPECT_EQ(taken(3), std::pair(1, std::int64_t{5})) << "now worker 1 has";
  EXPECT_EQ(ledger.claim(0, 2, 4), 3) << "what is left of its epoch";
  EXPECT_EQ(ledger.claim(0, 3, 4), 3) << "nothing";
  EXPECT_EQ(ledger.claim(0, 6, 4), 10) << "of the next epoch it has all";
  ledger.pushed(0, 4);
  EXPECT_EQ(ledger.own_pushed(0), 7) << "steps 0 to 2 and 6";
  ledger.pushed(2, 2);
  ledger.gone(2, Parting::died);  // worker 2 dies with two steps that it has not pushed
  ledger.gone(0, Parting::died);
  const Ledger::Fate fate = ledger.fate(0);
  EXPECT_EQ(fate.own, 4);
  EXPECT_EQ(fate.missing, 1 + 5) << "step 3, which the newcomer had taken, and 7 to 11";
  EXPECT_EQ(ledger.ask(1, 5, 0, false).step.number, 3);
  EXPECT_EQ(ledger.ask(1, 6, 0, false).step.number, 5) << "its own that it had given away";
}

TEST(Ledger, CountsOfADeadWorkerOnlyWhatLiesBefore) {
  Ledger ledger({share(6, 2), share(6, 1)}, true);
  ledger.claim(0, 0, 2);
  ledger.claim(1, 0, 6);
  ledger.comes(2);
  for (std::int64_t done = 0; done < 3; ++done) EXPECT_EQ(ledger.ask(2, done, 1, true).step.worker, 0);
  ledger.pushed(0, 2);
  ledger.gone(0, Parting::died);
  EXPECT_EQ(ledger.fate(0).own, 2);
  EXPECT_EQ(ledger.fate(0).missing, 1 + 6);
  ledger.pushed(2, 1);
  ledger.gone(2, Parting::died);
  EXPECT_EQ(ledger.fate(2).taken, 1);
}

TEST(Ledger, CountsNobodyWhoHasAskedForNothing) {
  Ledger ledger({share(2, 1)}, true);
  ledger.pushed(3, 1);  // a push without a question, as servers other than the first get
  ledger.gone(2, Parting::died);
  EXPECT_EQ(ledger.workers_seen(), 1u);
  ledger.comes(3);
  EXPECT_EQ(ledger.workers_seen(), 2u);
  ledger.gone(0, Parting::died);
  EXPECT_EQ(ledger.teller(), 3);
}

TEST(Ledger, HasNothingForAnybodyOnceTrainingHasStopped) {
  Ledger ledger({share(4, 2), share(4, 2)});
  ledger.gone(1, Parting::died);
  ledger.stop();
  EXPECT_EQ(ledger.ask(0, 4, 0, false).what, What::none);
}

TEST(Ledger, LetsNobodyGiveAwayStepsThatAreNotClaimedOneByOne) {
  Ledger ledger({share(6, 1)});
  ledger.comes(1);
  EXPECT_EQ(ledger.ask(1, 0, 0, true).what, What::wait);
}

/// A worker that claims its steps. A worker that joins has no share.
struct Claimer {
  std::int64_t own = 0, claimed = 0, steps = 0, epoch = 0;
  bool asks = false, is_there = true;
  std::vector<DealtStep> unpushed = {};
};

class Family {
 public:
  static constexpr int first = 4, most = 7;
  static constexpr std::int64_t each = 9, epochs = 3, total = each * epochs;

  explicit Family(unsigned seed) : random_(seed), all_(first) {}

  void play() {
    for (int still = 0; still < 400;) {
      if (chance(200)) resume();
      if (chance(20)) close_round();
      if (all_.size() < most && chance(30)) all_.push_back({.own = total, .epoch = epochs - 1, .asks = true});
      const int who = static_cast<int>(random_() % all_.size());
      Claimer& one = all_[static_cast<std::size_t>(who)];
      if (one.is_there && alive() > 1 && chance(60)) {
        one.is_there = false;
        ledger_.gone(who, Parting::died, static_cast<std::uint64_t>(waiting()[who]));
      }
      const std::int64_t before = one.steps;
      if (one.is_there) move(who, one);
      still = one.steps > before ? 0 : still + 1;
    }
    close_round();
  }

  Done done;

 private:
  bool chance(unsigned in) { return random_() % in == 0; }
  std::int64_t alive() const { return std::ranges::count(all_, true, &Claimer::is_there); }

  /// Some pushes wait in a round.
  void push(int who, Claimer& one) {
    round_.emplace_back(who, std::exchange(one.unpushed, {}));
    if (waiting()[who] == static_cast<std::int64_t>(round_.back().second.size()) && !chance(3)) {
      apply(round_.back());
      round_.pop_back();
    }
  }

  void apply(const std::pair<int, std::vector<DealtStep>>& push) {
    ledger_.pushed(push.first, push.second.size());
    for (const DealtStep& step : push.second) ++done[{step.worker, step.number}];
  }

  void close_round() {
    for (const auto& push : std::exchange(round_, {})) apply(push);
  }

  Ledger::Waiting waiting() const {
    Ledger::Waiting steps;
    for (const auto& [who, pushed] : round_) steps[who] += static_cast<std::int64_t>(pushed.size());
    return steps;
  }

  void move(int who, Claimer& one) {
    ledger_.comes(who);
    if (one.asks) {
      const bool is_last = one.own == total;
      if (is_last) push(who, one);
      const Ledger::Deal deal = ledger_.ask(who, one.steps, one.epoch, is_last);
      if (deal.what == What::take) return step(who, one, deal.step);
      one.asks = is_last;
      return;
    }
    one.epoch = one.own / each;
    if (one.own >= one.claimed) one.claimed = ledger_.claim(who, one.own, 1 + random_() % 3);
    if (one.own < one.claimed)
      step(who, one, {who, one.own++});
    else
      one.own = (one.epoch + 1) * each;
    one.asks = one.own % each == 0;
  }

  void step(int who, Claimer& one, DealtStep step) {
    ++one.steps;
    one.unpushed.push_back(step);
    if (chance(3)) push(who, one);
  }

  /// Saves and loads. The initial workers continue without those that joined. Pushes that wait in the round still wait.
  void resume() {
    const std::vector<std::byte> saved = ledger_.save(waiting());
    ledger_.load(saved);
    all_.assign(first, {});
    for (int who = 0; who < first; ++who) all_[static_cast<std::size_t>(who)].own = ledger_.own_pushed(who);
    for (Claimer& one : all_) one.asks = one.own == total;
  }

  std::mt19937 random_;
  std::vector<Claimer> all_;
  std::vector<std::pair<int, std::vector<DealtStep>>> round_;
  Ledger ledger_{std::vector<Ledger::Share>(first, share(each, epochs)), true};
};

TEST(Ledger, LosesAndDoublesNothingWhoeverJoinsDiesOrResumes) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Family family(seed);
    family.play();
    EXPECT_EQ(family.done.size(), Family::first * Family::total) << "seed " << seed;
    for (const auto& [step, times] : family.done)
      EXPECT_EQ(times, 1) << "seed " << seed << ", worker " << step.first << ", step " << step.second;
  }
}

}  // namespace
}  // namespace tutti::engine
