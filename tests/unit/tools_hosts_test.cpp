// Lists of hosts, the ranks that each host gets, the words of a remote start, a job as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/support/caught.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/run/addresses.hpp"
#include "tools/run/claims.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/host_link.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/job.hpp"
#include "tools/run/job_text.hpp"
#include "tools/run/tree.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::vector<int>> placed(const std::string& list, int ranks, const Placing& placing) {
  std::vector<Host> hosts = parse_hosts(list);
  place_ranks(hosts, ranks, placing);
  std::vector<std::vector<int>> all;
  for (const Host& host : hosts) all.push_back(host.ranks);
  return all;
}

std::vector<std::size_t> shares(const std::string& list, int ranks, bool oversubscribe) {
  std::vector<std::size_t> counts;
  int next = 0;
  for (const auto& host : placed(list, ranks, {.oversubscribe = oversubscribe})) {
    for (const int rank : host) EXPECT_EQ(rank, next++);
    counts.push_back(host.size());
  }
  return counts;
}

TEST(Hosts, Lists) {
  const std::vector<Host> hosts = parse_hosts("h1:2,h2,[fd00::1]:3,[::2],h2:4");
  ASSERT_EQ(hosts.size(), 4u);
  EXPECT_EQ(hosts[0].name, "h1");
  EXPECT_EQ(hosts[0].slots, 2);
  EXPECT_EQ(hosts[1].slots, 5);
  EXPECT_EQ(hosts[2].name, "fd00::1");
  EXPECT_EQ(hosts[2].slots, 3);
  EXPECT_EQ(hosts[3].name, "::2");
  EXPECT_EQ(hosts[3].slots, 1);
}

TEST(Hosts, Refused) {
  for (const char* list :
       {"", ",", "a,", "a:", "a:0", "a:-1", "a:2x", "a:99999", "[", "[]", "[a", "[a]b", "-o", "a b", "a/b", "$(a)"})
    EXPECT_EQ(tutti::testing::caught([&] { parse_hosts(list); }).code(), Code::invalid) << list;
  std::string many = "a:4096";
  for (int i = 0; i < 256; ++i) many += ",a:4096";
  EXPECT_THAT(tutti::testing::caught([&] { parse_hosts(many); }).what(), HasSubstr("slots together"));
}

TEST(Hosts, Users) {
  const std::vector<Host> hosts = parse_hosts("me@h1:2,me@[fd00::2]:3,LOCALHOST:2,localhost,[fe80::1%eth0]");
  std::vector<std::string> shown;
  for (const Host& host : hosts) shown.push_back(host.name + " " + std::to_string(host.slots));
  EXPECT_THAT(shown, ElementsAre("me@h1 2", "me@fd00::2 3", "LOCALHOST 3", "fe80::1%eth0 1"));
  for (const char* list : {"@h1", "me@", "me@-x", "me@:2", "-o@h1"})
    EXPECT_EQ(tutti::testing::caught([&] { parse_hosts(list); }).code(), Code::invalid) << list;
}

TEST(Hosts, Racks) {
  std::vector<std::string> shown;
  for (const Host& host : parse_hosts("h1:2@r1,me@h2:3@pod1/r2,[fd00::1]:4@r1,h3@h4,h1:1,h5:1,h5:1@r3"))
    shown.push_back(host.name + " " + std::to_string(host.slots) + " " + host.rack);
  EXPECT_THAT(shown, ElementsAre("h1 3 r1", "me@h2 3 pod1/r2", "fd00::1 4 r1", "h3@h4 1 ", "h5 2 r3"));
  for (const char* list : {"h1:2@", "h1:2@a b", "h1:2@/r", "h1:@r", "h1:2@r1,h1:2@r2", "h1:2@r1@r2"})
    EXPECT_EQ(tutti::testing::caught([&] { parse_hosts(list); }).code(), Code::invalid) << list;
  EXPECT_THAT(tutti::testing::caught([] { parse_hosts("h1:2@r1,h1:2@r2"); }).what(),
              HasSubstr("'h1' is in two racks, r1 and r2"));
}

TEST(Hosts, RacksGoWithTheJob) {
  Job job;
  job.ranks = 2;
  job.words = {"true"};
  job.hosts = parse_hosts("h1:1@pod1/r1,h2:1");
  job.hosts[0].ranks = {0};
  job.hosts[1].ranks = {1};
  std::string folder;
  const Job read = parse_job(job_text(job, "/"), folder);
  EXPECT_EQ(read.hosts[0].name, "h1");
  EXPECT_EQ(read.hosts[0].rack, "pod1/r1");
  EXPECT_EQ(read.hosts[1].name, "h2");
  EXPECT_EQ(read.hosts[1].rack, "");
  EXPECT_THAT(rank_environment(read, 0), ::testing::Contains("TUTTI_RACK=pod1/r1"));
}

TEST(Hosts, ThisHostInAnyCase) {
  for (const char* name : {"localhost", "LOCALHOST", "LocalHost", "127.0.0.1", "::1"}) EXPECT_TRUE(is_this_host(name));
  EXPECT_FALSE(is_this_host("me@localhost"));
}

std::vector<std::string> hostfile(const std::string& text) {
  const tutti::testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/hosts";
  std::ofstream(path) << text;
  std::vector<std::string> shown;
  for (const Host& host : read_hostfile(path))
    shown.push_back(host.name + " " + std::to_string(host.slots) + " " + std::to_string(host.most) +
                    (host.rack.empty() ? "" : " " + host.rack));
  return shown;
}

TEST(Hosts, Hostfiles) {
  EXPECT_THAT(hostfile("\xef\xbb\xbfh1 slots=2\r\n\r\nh2:3 # the second\r\n"), ElementsAre("h1 2 0", "h2 3 0"));
  EXPECT_THAT(hostfile("# all\nh1 slots = 2 max_slots= 4#none\nh2 max-slots =3 slots=2 // two\n"),
              ElementsAre("h1 2 4", "h2 2 3"));
  EXPECT_THAT(hostfile("h1 /* one */ slots=2\n/* h2\nh3 */ h4\nh5 SLOTS=3"), ElementsAre("h1 2 0", "h4 1 0", "h5 3 0"));
  EXPECT_THAT(hostfile("  fd00::1\tslots=2  \nme@h2\nh3 user=you count=2\n[::2]:4\n"),
              ElementsAre("fd00::1 2 0", "me@h2 1 0", "you@h3 2 0", "::2 4 0"));
  EXPECT_THAT(hostfile("h1 slots=2 rack=r1\nh2:3@r2\nh3 rack = pod1/r3\n"),
              ElementsAre("h1 2 0 r1", "h2 3 0 r2", "h3 1 0 pod1/r3"));
  EXPECT_THAT(hostfile("LOCALHOST slots=1\nlocalhost:2\n"), ElementsAre("LOCALHOST 3 0"));
  for (const char* text :
       {"", "# h1\n", "h1 2\n", "h1 slots\n", "h1 slots=\n", "h1 slots=0\n", "h1 sluts=2\n", "h1 slots=2x\n",
        "h1 user=\n", "h1 user=a/b\n", "h1 rack=\n", "h1 rack=a b\n", "h1 rack=a,b\n"})
    EXPECT_EQ(tutti::testing::caught([&] { hostfile(text); }).code(), Code::invalid) << text;
  EXPECT_THAT(tutti::testing::caught([] { hostfile("h1\nh2 sluts=2\n"); }).what(),
              HasSubstr("hosts:2: 'sluts=2' means"));
}

std::string refused(const std::string& text) {
  const std::string what = tutti::testing::caught([&] { hostfile(text); }).what();
  return what.substr(std::min(what.find("hosts:"), what.size()));
}

TEST(Hosts, CommentsOfHostfiles) {
  EXPECT_THAT(hostfile("h1 slots=2   # as in /etc/hosts.d/*\nh2 slots=2\n"), ElementsAre("h1 2 0", "h2 2 0"));
  EXPECT_THAT(hostfile("h1 // not /* yet\nh2\n"), ElementsAre("h1 1 0", "h2 1 0"));
  EXPECT_THAT(hostfile("/*/ h1\nh2 */ h3 /**/ slots=2\n"), ElementsAre("h3 2 0"));
  EXPECT_THAT(hostfile("/* # */ h1 /* // */ slots/**/=3 # */\nh2/* one\n*/\n"), ElementsAre("h1 3 0", "h2 1 0"));
  EXPECT_THAT(hostfile("/* h1 # */ h2"), ElementsAre("h2 1 0"));
  EXPECT_THAT(refused("h1\n/* h2\nh3\n"), StartsWith("hosts:2: the comment that begins with /* does not end"));
  EXPECT_THAT(refused("h1\n/* h2\n*/ h3 /*/\n"), StartsWith("hosts:3: the comment"));
}

TEST(Hosts, MistakesInHostfilesHaveAPlace) {
  EXPECT_THAT(refused("h1\nvm slots=x\n"), StartsWith("hosts:2: 'slots=x' is no number of ranks; give 1 to 4096"));
  EXPECT_THAT(refused("vm max_slots=0\n"), StartsWith("hosts:1: 'max_slots=0' is no number"));
  EXPECT_THAT(refused("vm:x\n"), StartsWith("hosts:1: 'vm:x': behind the host's name"));
  EXPECT_THAT(refused("\n-vm\n"), StartsWith("hosts:2: '-vm' names no host; give a line"));
  EXPECT_THAT(refused("vm user=a/b\n"), StartsWith("hosts:1: "));
}

TEST(Hosts, NoMoreThanAHostTakes) {
  std::vector<Host> hosts = {{"h1", 1, 2, {}}, {"h2", 1, 0, {}}};
  EXPECT_THAT(tutti::testing::caught([&] { place_ranks(hosts, 6, {.oversubscribe = true}); }).what(),
              HasSubstr("host 'h1' would get 3 ranks, and takes 2 at most"));
  EXPECT_EQ(place_ranks(hosts, 4, {.oversubscribe = true}), 4);
}

TEST(Hosts, SlotBySlot) {
  EXPECT_THAT(shares("a:2,b:2", 0, false), ElementsAre(2, 2));
  EXPECT_THAT(shares("a:2,b:2", 3, false), ElementsAre(2, 1));
  EXPECT_THAT(shares("a:2,b:2", 1, false), ElementsAre(1));
  EXPECT_THAT(tutti::testing::caught([] { shares("a:2,b:2", 7, false); }).what(), HasSubstr("a:5"));
}

TEST(Hosts, Oversubscribed) {
  EXPECT_THAT(shares("a:2,b:2", 3, true), ElementsAre(2, 1));
  EXPECT_THAT(shares("a,b", 7, true), ElementsAre(3, 4));
  EXPECT_THAT(shares("a:1,b:3", 8, true), ElementsAre(2, 6));
  EXPECT_THAT(shares("a:3,b,c", 4096, true), ElementsAre(2457, 819, 820));
}

TEST(Hosts, ByNode) {
  const auto by_node = [](const std::string& list, int ranks, bool oversubscribe = false) {
    return placed(list, ranks, {oversubscribe, true});
  };
  using Ranks = std::vector<int>;
  EXPECT_THAT(by_node("a:2,b:2", 0), ElementsAre(Ranks{0, 2}, Ranks{1, 3}));
  EXPECT_THAT(by_node("a:3,b,c:2", 0), ElementsAre(Ranks{0, 3, 5}, Ranks{1}, Ranks{2, 4}));
  EXPECT_THAT(by_node("a:4,b:4", 2), ElementsAre(Ranks{0}, Ranks{1}));
  EXPECT_THAT(by_node("a,b:2", 6, true), ElementsAre(Ranks{0, 2}, Ranks{1, 3, 4, 5}));
}

TEST(RemoteStart, Words) {
  EXPECT_THAT(remote_words("ssh -o BatchMode=yes", "h1"), ElementsAre("ssh", "-o", "BatchMode=yes", "h1"));
  EXPECT_THAT(remote_words("ip netns  exec {host}", "h1"), ElementsAre("ip", "netns", "exec", "h1"));
  EXPECT_THAT(remote_words("docker exec -i job-{host}-{host}", "7"), ElementsAre("docker", "exec", "-i", "job-7-7"));
}

TEST(JobText, ThereAndBack) {
  Job job;
  job.ranks = 8;
  job.hosts = {
      {.name = "h3", .ranks = {2, 5, 6}}, {.name = "fd00::1", .ranks = {0}}, {.name = "me@h5", .ranks = {3, 4}}};
  job.place = 2;
  job.fan_out = 4;
  job.remote_start = "ssh -o BatchMode=yes";
  job.remote_tutti = "/opt/tutti/bin/tutti";
  job.silence = 0.25;
  job.mark = "mark";
  job.bind = true;
  job.words = {"program", "", "a b\n:", std::string("\0x", 2)};
  job.stores = {"tcp://a:1", "tcp://[::1]:2"};
  job.variables = {{"A", "1=2"}, {"B", ""}};
  std::string folder;
  const Job found = parse_job(job_text(job, "/a folder"), folder);
  EXPECT_EQ(folder, "/a folder");
  EXPECT_EQ(found.ranks, 8);
  EXPECT_EQ(found.here, job.hosts.front().ranks);
  ASSERT_EQ(found.hosts.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found.hosts[i].name, job.hosts[i].name);
    EXPECT_EQ(found.hosts[i].ranks, job.hosts[i].ranks);
  }
  EXPECT_EQ(found.place, job.place);
  EXPECT_EQ(found.fan_out, job.fan_out);
  EXPECT_EQ(found.remote_start, job.remote_start);
  EXPECT_EQ(found.remote_tutti, job.remote_tutti);
  EXPECT_EQ(found.silence, 0.25);
  EXPECT_EQ(found.mark, job.mark);
  EXPECT_TRUE(found.bind);
  EXPECT_EQ(found.words, job.words);
  EXPECT_EQ(found.stores, job.stores);
  EXPECT_EQ(found.variables, job.variables);
}

TEST(JobText, EveryBeginningIsRefused) {
  Job job;
  job.ranks = 1;
  job.hosts = {{.name = "a", .ranks = {0}}};
  job.words = {"program"};
  job.variables = {{"A", "1"}};
  const std::string text = job_text(job, "/");
  std::string folder;
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_EQ(tutti::testing::caught([&] { parse_job(text.substr(0, size), folder); }).code(), Code::protocol) << size;
}

TEST(JobText, ARankIsOfOneHost) {
  Job job;
  job.ranks = 3;
  job.hosts = {{.name = "a", .ranks = {0, 1}}, {.name = "b", .ranks = {1, 2}}};
  job.words = {"program"};
  std::string folder;
  EXPECT_EQ(tutti::testing::caught([&] { parse_job(job_text(job, "/"), folder); }).code(), Code::protocol);
  job.hosts[1].ranks = {3};
  EXPECT_EQ(tutti::testing::caught([&] { parse_job(job_text(job, "/"), folder); }).code(), Code::protocol);
}

TEST(JobText, NeighboursAreARange) {
  Job job;
  job.ranks = 1 << 20;
  job.words = {"program"};
  job.hosts.resize(1);
  for (int rank = 0; rank < job.ranks; ++rank) job.hosts[0].ranks.push_back(rank);
  EXPECT_LT(job_text(job, "/").size(), 300u);
}

TEST(JobText, GrowsByAFewBytesAHost) {
  for (const std::size_t hosts : {64, 1024, 8192, 65536}) {
    Job job;
    job.words = {"program"};
    for (std::size_t i = 0; i < hosts; ++i) {
      Host& host = job.hosts.emplace_back();
      host.name = "node" + std::to_string(i);
      for (int rank = 0; rank < 8; ++rank) host.ranks.push_back(job.ranks++);
    }
    EXPECT_LT(job_text(job, "/").size(), 200 + 35 * hosts);
  }
}

/// Starts all hosts of a branch as agents do. Checks that each host is started once, and that no host starts too many.
void start_all(const Branch& branch, std::size_t most, int level, std::vector<int>& levels) {
  ASSERT_LT(branch.first, levels.size());
  ASSERT_EQ(levels[branch.first], 0);
  levels[branch.first] = level;
  const std::vector<Branch> below = split(branch.first + 1, branch.count - 1, most);
  ASSERT_LE(below.size(), most);
  for (const Branch& next : below) {
    EXPECT_EQ(starter(branch, next.first, most), branch.first);
    for (std::size_t host = next.first + 1; host < next.end(); ++host)
      EXPECT_EQ(starter(branch, host, most), starter(next, host, most));
    start_all(next, most, level + 1, levels);
  }
}

TEST(Tree, StartsEveryHostOnce) {
  for (const std::size_t most : {1, 2, 3, 4, 32})
    for (std::size_t hosts = 1; hosts <= 100; ++hosts) {
      std::vector<int> levels(hosts, 0);
      const std::vector<Branch> parts = split(0, hosts, most);
      ASSERT_EQ(parts.size(), std::min(hosts, most));
      int highest = 0;
      for (const Branch& part : parts) {
        start_all(part, most, 1, levels);
        highest = std::max(highest, height(part.count, most));
      }
      EXPECT_GE(*std::min_element(levels.begin(), levels.end()), 1);
      EXPECT_EQ(*std::max_element(levels.begin(), levels.end()), highest) << hosts << " by " << most;
    }
}

TEST(Tree, GrowsAsALogarithm) {
  const auto levels = [](std::size_t hosts) { return height((hosts + 31) / 32, 32); };
  EXPECT_EQ(levels(32), 1);
  EXPECT_EQ(levels(33), 2);
  EXPECT_EQ(levels(1024), 2);
  EXPECT_EQ(levels(8192), 3);
  EXPECT_EQ(levels(65536), 4);
}

TEST(Tree, ThisHostIsALeaf) {
  std::vector<Host> hosts = parse_hosts("a,b,localhost,c,127.0.0.1,d");
  EXPECT_EQ(order_hosts(hosts), 2u);
  std::vector<std::string> names;
  for (const Host& host : hosts) names.push_back(host.name);
  EXPECT_THAT(names, ElementsAre("localhost", "127.0.0.1", "a", "b", "c", "d"));
  const std::vector<Branch> parts = split(0, 6, 4, 2);
  std::vector<std::size_t> sizes;
  for (const Branch& part : parts) sizes.push_back(part.count);
  EXPECT_THAT(sizes, ElementsAre(1u, 1u, 2u, 2u));
  EXPECT_EQ(split(0, 6, 2, 2).size(), 3u);  // at least one branch for the other hosts
}

class ClaimsTest : public ::testing::Test {
 protected:
  // Branch 0 has hosts 4 and 5 with ranks 0 to 2, branch 1 has host 6 with rank 3.
  Claims claims_{
      {{4, 2}, {6, 1}}, {{.name = "e", .ranks = {0, 1}}, {.name = "f", .ranks = {2}}, {.name = "g", .ranks = {3}}}, 4};

  std::string refusal(std::size_t branch, Say say, int subject, std::int64_t number = 0, const std::string& text = {}) {
    try {
      claims_.take(branch, {say, subject, number, text});
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
};

TEST_F(ClaimsTest, RanksAreOfTheirBranchAndStarted) {
  EXPECT_THAT(refusal(0, Say::started, 0, 17), HasSubstr("not been told to start"));
  claims_.tell({Say::go, 0, 0, {}});
  EXPECT_EQ(refusal(0, Say::started, 0, 17), "");
  EXPECT_THAT(refusal(0, Say::started, 0, 17), HasSubstr("runs already"));
  EXPECT_THAT(refusal(0, Say::started, 3, 17), HasSubstr("not been told to start"));
  EXPECT_THAT(refusal(1, Say::ended, 3), HasSubstr("not started"));
  EXPECT_EQ(refusal(0, Say::ended, 0), "");
  for (const int rank : {-1, 4, INT_MAX, INT_MIN})
    EXPECT_THAT(refusal(0, Say::ended, rank), HasSubstr("not been told to start")) << rank;
}

TEST_F(ClaimsTest, OutputIsAcknowledgedFirst) {
  claims_.tell({Say::go, 0, 0, {}});
  EXPECT_EQ(refusal(0, Say::output, 5, 0, std::string(stream_window, 'x')), "");
  EXPECT_THAT(refusal(0, Say::output, 5, 0, "x"), HasSubstr("more output"));
  claims_.tell({Say::taken, 5, 1, {}});
  EXPECT_EQ(refusal(0, Say::output, 5, 0, "x"), "");
  EXPECT_THAT(refusal(0, Say::output, -1, 0, "x"), HasSubstr("does not exist"));
  EXPECT_EQ(refusal(0, Say::output, 5), "");
  EXPECT_THAT(refusal(0, Say::output, 5), HasSubstr("after its end"));
}

TEST_F(ClaimsTest, InputIsOfRank0) {
  claims_.tell({Say::go, 0, 0, {}});
  claims_.tell({Say::input, 0, 0, "abc"});
  EXPECT_THAT(refusal(1, Say::consumed, 0, 1), HasSubstr("has not been given"));
  EXPECT_EQ(refusal(0, Say::consumed, 0, 2), "");
  EXPECT_THAT(refusal(0, Say::consumed, 0, 2), HasSubstr("more input"));
  EXPECT_EQ(refusal(0, Say::consumed, 0, -1), "");
}

TEST_F(ClaimsTest, HostsAreBelow) {
  EXPECT_EQ(refusal(0, Say::lost, 5, 1), "");
  EXPECT_EQ(refusal(0, Say::refused, 4, 1), "");
  EXPECT_EQ(refusal(0, Say::refused, 5, 1), "");
  EXPECT_THAT(refusal(0, Say::lost, 4, 1), HasSubstr("a host"));  // host 4 is the sender itself
  EXPECT_THAT(refusal(0, Say::lost, 5, 2), HasSubstr("a host"));
  EXPECT_THAT(refusal(0, Say::lost, 5, 0), HasSubstr("a host"));
  EXPECT_THAT(refusal(0, Say::lost, 5, INT64_MAX), HasSubstr("a host"));
  EXPECT_THAT(refusal(0, Say::lost, -1, 1), HasSubstr("a host"));
  EXPECT_THAT(refusal(0, Say::refused, 6, 1), HasSubstr("not its own"));
  EXPECT_THAT(refusal(1, Say::refused, -1, 1), HasSubstr("not its own"));
  EXPECT_THAT(refusal(1, Say::job, 0), HasSubstr("only a launcher says"));
}

}  // namespace
}  // namespace tutti::tools
