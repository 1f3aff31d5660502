// The setting `chaos`, its decorator over byte streams in memory, and the faults of system calls.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "tests/support/caught.hpp"
#include "tests/support/memory_ranks.hpp"
#include "tests/support/worlds.hpp"
#include "transports/decorators/chaos.hpp"
#include "tutti/communicator.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"
#include "tutti/settings.hpp"

namespace tutti {
namespace {

using testing::caught;
using testing::MemoryNet;
using testing::MemoryRanks;
using testing::Outcome;
using testing::pattern;
using Block = std::vector<std::byte>;

Tag tag(std::uint32_t sequence) { return {1, sequence, 0}; }

void play(MemoryRanks& ranks, int rank, const char* chaos) {
  auto& transport = ranks.transports[static_cast<std::size_t>(rank)];
  transport = make_chaos(std::move(transport), ranks.listener(rank), parse_chaos(chaos));
}

TEST(chaos, reads_every_part_and_writes_it_again) {
  const std::string all =
      "seed=7,delay=8,lazy=30,short=20,eintr=10,memory=5,kill=2@17,stop=1@9,lose=4@3,cut=0-3@12,backend=off";
  const Chaos chaos = parse_chaos(all);
  EXPECT_EQ(chaos.seed, 7u);
  EXPECT_EQ(chaos.delay, 8);
  EXPECT_EQ(chaos.short_part, 20);
  EXPECT_EQ(chaos.kill, (RankFault{2, 17}));
  EXPECT_EQ(chaos.cut, (LinkFault{0, 3, 12}));
  EXPECT_FALSE(chaos.backend);
  EXPECT_EQ(to_string(chaos), all);
  EXPECT_EQ(parse_chaos("memory=@3").memory_nth, 3u);
  EXPECT_EQ(parse_chaos(to_string(parse_chaos("memory=@3"))), parse_chaos("memory=@3"));
  EXPECT_EQ(parse_chaos("delay=1").seed, 1u);
}

TEST(chaos, says_what_is_wrong_with_a_text) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "it has no '='"},
      {"seed", "it has no '='"},
      {"sed=1", "there are seed, delay"},
      {"seed=", "whole number"},
      {"lazy=100", "from 0 to 99"},
      {"eintr=95", "from 0 to 90"},
      {"delay=-1", "from 0 to 1000"},
      {"kill=2", "RANK@STEP"},
      {"kill=2@0", "a step"},
      {"cut=1@2", "RANK-RANK@STEP"},
      {"cut=1-1@2", "no link to itself"},
      {"backend=maybe", "on or off"},
      {"seed=1x", "'x' is too much"},
      {"seed=1,,lazy=2", "it has no '='"},
  };
  for (const auto& [text, why] : wrong) {
    const std::string said = caught([&, bad = text] { parse_chaos(bad); }).what();
    EXPECT_NE(said.find(why), std::string::npos) << text << ": " << said;
    EXPECT_NE(said.find("write it like seed=7"), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  Settings settings;
  const std::string said = caught([&] { settings.set("chaos", "kil=1@2", "environment"); }).what();
  EXPECT_NE(said.find("TUTTI_CHAOS='kil=1@2'"), std::string::npos) << said;
  settings.set("chaos", "", "flag");
}

TEST(chaos, throws_the_same_dice_for_the_same_seed_and_rank) {
  Dice one(7, 0), same(7, 0), of_other_rank(7, 1), of_other_seed(8, 0);
  int differing = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t thrown = one.next();
    EXPECT_EQ(thrown, same.next());
    differing += (thrown != of_other_rank.next()) + (thrown != of_other_seed.next());
  }
  EXPECT_EQ(differing, 200);
}

TEST(chaos, keeps_what_the_contract_promises_and_reorders_the_rest) {
  MemoryRanks ranks(2, 5000);
  for (const int i : {0, 1}) play(ranks, i, "seed=7,delay=8,lazy=30");
  std::vector<Block> out, in;
  for (std::uint32_t i = 0; i < 200; ++i) out.push_back(pattern(i * 100, i)), in.emplace_back(i * 100);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < 200; ++i) {
    ranks.send(0, 1, tag(i % 5), out[i]);
    ranks[1].recv(0, tag(i % 5), 0, in[i], [&order, i](const Status&) { order.push_back(i); });
  }
  for (int i = 0; i < 5000; ++i) ranks[i % 2].progress();
  EXPECT_EQ(in, out);
  EXPECT_EQ(order.size(), 200u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end())) << "nothing was reordered";
}

TEST(chaos, loses_a_peer_on_purpose) {
  MemoryRanks ranks(3, MemoryNet::unlimited);
  play(ranks, 0, "lose=2@4");
  const Block out = pattern(10, 1);
  for (std::uint32_t i = 0; i < 3; ++i) ranks.send(0, 2, tag(i), out);
  ranks.settle();
  EXPECT_TRUE(ranks.listener(0).causes().empty());
  Outcome& fourth = ranks.send(0, 2, tag(3), out);
  Outcome& other = ranks.send(0, 1, tag(3), out);
  for (int i = 0; i < 100; ++i) ranks[0].progress();
  EXPECT_EQ(fourth.status.code(), Code::peer_lost);
  EXPECT_TRUE(other.ok());
  ASSERT_EQ(ranks.listener(0).causes().size(), 1u);
  EXPECT_EQ(ranks.listener(0).causes()[0].culprit, 2);
}

TEST(chaos, reports_a_peer_lost_whose_link_cannot_be_cut) {
  MemoryRanks ranks(3, MemoryNet::unlimited);
  play(ranks, 1, "cut=2-1@2");
  const Block out = pattern(10, 1);
  EXPECT_TRUE((ranks.send(1, 2, tag(1), out), ranks.settle(), ranks.listener(1).causes().empty()));
  Outcome& second = ranks.send(1, 2, tag(2), out);
  ranks.settle();
  EXPECT_EQ(second.status.code(), Code::peer_lost);
  ASSERT_EQ(ranks.listener(1).causes().size(), 1u);
  EXPECT_EQ(ranks.listener(1).causes()[0].culprit, 2);
}

// Returns the signal by which a process ended or stopped that played the chaos in 10 sends and as many progress calls.
int signal_of(const char* chaos) {
  const pid_t child = ::fork();
  if (child == 0) {
    MemoryRanks ranks(2, MemoryNet::unlimited);
    play(ranks, 0, chaos);
    const Block out = pattern(10, 1);
    for (std::uint32_t i = 0; i < 10; ++i) ranks.send(0, 1, tag(i), out);
    ranks.settle();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  if (!WIFSTOPPED(status)) return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return WSTOPSIG(status);
}

TEST(chaos, kills_and_stops_its_own_process_at_a_step) {
  EXPECT_EQ(signal_of("kill=0@11"), 0);
  EXPECT_EQ(signal_of("kill=1@1"), 0) << "that is another rank";
  EXPECT_EQ(signal_of("kill=0@10"), SIGKILL);
  EXPECT_EQ(signal_of("kill=0@10,delay=3"), SIGKILL);
  EXPECT_EQ(signal_of("stop=0@5"), SIGSTOP);
}

TEST(chaos, loses_a_rank_that_is_a_thread_instead_of_killing_it) {
  const Provider* const inproc = find_provider("inproc", {}).provider;
  testing::RecordingListener listeners[2];
  std::unique_ptr<Transport> transports[2];
  Settings settings;
  settings.job = "chaos_test";
  for (const int rank : {0, 1}) {
    Rendezvous meeting;
    meeting.rank = rank;
    meeting.size = 2;
    meeting.store = nullptr;
    meeting.settings = &settings;
    meeting.listener = &listeners[rank];
    transports[rank] = inproc->connect(meeting).transport;
  }
  EXPECT_EQ(caught([&] { make_chaos(std::move(transports[1]), listeners[1], parse_chaos("stop=1@1")); }).code(),
            Code::invalid);
  const auto dying = make_chaos(std::move(transports[0]), listeners[0], parse_chaos("kill=0@2,delay=2"));
  Outcome first, second;
  const Block out = pattern(10, 1);
  dying->send(0, tag(1), 0, out, MemoryRanks::note(first));
  dying->send(0, tag(2), 0, out, MemoryRanks::note(second));
  for (int i = 0; i < 10; ++i) dying->progress();
  ASSERT_EQ(listeners[0].causes().size(), 1u);
  EXPECT_EQ(listeners[0].causes()[0].culprit, 0);
  Outcome later;
  dying->send(0, tag(3), 0, out, MemoryRanks::note(later));
  EXPECT_FALSE(later.done()) << "a callback ran inside send()";
  dying->progress();
  EXPECT_EQ(later.status.code(), Code::peer_lost);
}

TEST(chaos, is_warned_of_once_and_loses_the_rank_in_a_job) {
  static std::atomic<int> warnings;
  warnings = 0;
  set_log_handler([](LogLevel, std::string_view line) {
    if (line.find("chaos is on") != std::string_view::npos) ++warnings;
  });
  Settings settings = testing::test_settings("inproc");
  settings.chaos = "seed=3,delay=4,lazy=20,kill=1@5";
  std::atomic<int> named{0};
  testing::run_ranks(3, settings, [&](Communicator& world) {
    std::vector<int> data(10, 1);
    try {
      while (true) world.allreduce(data, max).wait();
    } catch (const Error& error) {
      if (error.code() == Code::peer_lost && error.culprit() == 1) ++named;
    }
  });
  set_log_handler(nullptr);
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(named, 3);
}

TEST(chaos, plays_faults_of_system_calls_only_while_it_lives) {
  EXPECT_FALSE(system_faults::is_on());
  {
    const system_faults::Ticket ticket(parse_chaos("eintr=50,short=50,memory=@3"), 0);
    EXPECT_TRUE(system_faults::is_on());
    int interrupted = 0, shortened = 0, refused = 0;
    for (int i = 0; i < 1000; ++i) {
      interrupted += system_faults::interruptible([] { return 0; }) < 0 ? 1 : 0;
      char bytes[100];
      iovec parts[] = {{bytes, 40}, {bytes + 40, 60}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      system_faults::shorten(message);
      std::size_t left = 0;
      for (std::size_t part = 0; part < message.msg_iovlen; ++part) left += parts[part].iov_len;
      EXPECT_GE(left, 1u);
      shortened += left < 100 ? 1 : 0;
      if (system_faults::refuses_memory()) refused += i + 1;
    }
    EXPECT_TRUE(interrupted > 300 && interrupted < 700) << interrupted;
    EXPECT_TRUE(shortened > 300 && shortened < 700) << shortened;
    EXPECT_EQ(refused, 3) << "the third reservation and no other";
  }
  EXPECT_FALSE(system_faults::is_on());
  EXPECT_EQ(system_faults::interruptible([] { return 5; }), 5);
}

TEST(chaos, cuts_the_link_of_two_ranks) {
  const system_faults::Ticket ticket(parse_chaos("cut=0-3@1"), 0);
  EXPECT_EQ(system_faults::peer_cut_from(0), -1);
  system_faults::cut({0, 3, 1});
  EXPECT_EQ(system_faults::peer_cut_from(0), 3);
  EXPECT_EQ(system_faults::peer_cut_from(3), 0);
  EXPECT_EQ(system_faults::peer_cut_from(1), -1);
}

}  // namespace
}  // namespace tutti
