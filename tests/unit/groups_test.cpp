// Groups: by key, by list, by host, nested, and made again; their members, and that no message leaves a group.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "tests/support/refusal.hpp"
#include "tests/support/require.hpp"
#include "tests/support/worlds.hpp"
#include "tutti.hpp"

namespace tutti::testing {
namespace {

/// Runs `body` on `size` ranks, rank r on host host_of(r).
template <typename HostOf>
void run_on_hosts(int size, HostOf host_of, const std::function<void(Communicator&)>& body) {
  run_ranks(
      size,
      [&](int rank) {
        Settings settings = test_settings("inproc");
        settings.host_id = "host-" + std::to_string(host_of(rank));
        return settings;
      },
      body);
}

std::vector<int> world_ranks(const Communicator& group) {
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) ranks.push_back(group.world_rank(i));
  return ranks;
}

TEST(Groups, SplitByKeyForOneToThirtySevenRanks) {
  for (int p = 1; p <= 37; ++p) {
    std::atomic<int> firsts{0};  // sum of the groups' sizes, added by their first ranks
    run_ranks(p, test_settings("inproc"), [&](Communicator& world) {
      Communicator group = world.split_by("remainder " + std::to_string(world.rank() % 3));
      require(group.rank() == world.rank() / 3, "the rank in the group");
      require(group.world_rank(group.rank()) == world.rank(), "the world rank");
      if (group.rank() == 0) firsts += group.size();
    });
    EXPECT_EQ(firsts, p);
  }
}

TEST(Groups, KeysMayHaveAnyLengthAndAnyBytes) {
  run_ranks(4, test_settings("inproc"), [](Communicator& world) {
    const bool odd = world.rank() % 2 == 1;
    for (const std::size_t length : {0u, 1u, 1023u, 1024u, 1025u, 1'000'000u}) {
      std::string key(length, 'k');
      require(world.split_by(key).size() == 4, "equal keys");
      if (length == 0) continue;
      if (odd) key.back() = '\0';
      require(world.split_by(key).size() == 2, "keys that differ in the last byte");
    }
    require(world.split_by(odd ? std::string_view("a\0b", 3) : std::string_view("a\0c", 3)).size() == 2,
            "keys that differ after a zero");
    require(world.split_by(odd ? "k" : "kk").size() == 2, "keys that differ in length");
  });
}

TEST(Groups, SixRanksByThreeAreCartesian) {
  run_on_hosts(
      6, [](int rank) { return rank / 3; },
      [](Communicator& world) {
        const int host = world.rank() / 3, index = world.rank() % 3;
        require(world.is_cartesian(), "cartesian");
        require(world.topology().hosts().count() == 2, "two hosts");
        require(world_ranks(world.node()) == std::vector<int>{3 * host, 3 * host + 1, 3 * host + 2}, "node");
        require(world_ranks(world.across()) == std::vector<int>{index, index + 3}, "across");
      });
}

TEST(Groups, SevenRanksByThreeAreNot) {
  run_on_hosts(
      7, [](int rank) { return rank / 3; },
      [](Communicator& world) {
        require(!world.is_cartesian(), "not cartesian");
        require(world.node().size() == (world.rank() == 6 ? 1 : 3), "node");
        require(world.across().size() == (world.rank() % 3 == 0 ? 3 : 2), "across only where there is such a rank");
        const auto leaders = world.leaders();
        require(leaders.has_value() == (world.rank() % 3 == 0), "one leader on each host");
        if (leaders) require(world_ranks(*leaders) == std::vector<int>{0, 3, 6}, "the leaders");
      });
}

TEST(Groups, RanksThatAlternateBetweenHostsMakeNoMoreHosts) {
  run_on_hosts(
      8, [](int rank) { return rank % 3; },
      [](Communicator& world) {
        require(world.topology().hosts().count() == 3, "three hosts");
        require(world.topology()[world.rank()].host == "host-" + std::to_string(world.rank() % 3), "my host");
        Communicator node = world.node();
        require(node.size() == (world.rank() % 3 == 2 ? 2 : 3), "node");
        require(node.topology().hosts().count() == 1, "a node is one host");
        require(world.across().topology().hosts().count() == world.across().size(), "all on different hosts");
        const int mine = world.rank();
        require(node.allreduce(mine, min).wait() == world.rank() % 3, "the node's lowest rank");
      });
}

TEST(Groups, NestedLevelsAreGroupsOfGroups) {
  run_on_hosts(
      12, [](int rank) { return rank % 2; },
      [](Communicator& world) {
        Communicator node = world.node();                                    // 6 ranks: every other rank of the world
        Communicator pair = node.split_by(std::to_string(node.rank() / 2));  // pairs of neighbours in the node
        require(pair.size() == 2 && pair.rank() == node.rank() % 2, "the nested rank");
        require(pair.world_rank(0) == world.rank() - 2 * pair.rank(), "the world rank of a nested rank");
        std::vector<int> data{world.rank(), 7};
        pair.allreduce(std::span(data).first(1)).wait();
        require(data[0] == 2 * pair.world_rank(0) + 2, "the sum of the pair only");
        require(data[1] == 7, "what is outside of the slice");
        require(node.allreduce(1).wait() == 6 && world.allreduce(1).wait() == 12, "the levels above");
      });
}

TEST(Groups, ADuplicateDoesNotWaitForTheOther) {
  run_ranks(3, test_settings("inproc"), [](Communicator& world) {
    Communicator again = world.dup();
    require(world_ranks(again) == world_ranks(world) && again.rank() == world.rank(), "the same ranks");
    std::vector<int> first(1000, 1), second(1000, 2);
    Work pending;
    if (world.rank() == 0) pending = world.allreduce(first);  // the other ranks make this call later
    again.allreduce(second).wait();
    require(second == std::vector<int>(1000, 6), "the duplicate's sum");
    if (world.rank() != 0) pending = world.allreduce(first);
    pending.wait();
    require(first == std::vector<int>(1000, 3), "the first one's sum");
  });
}

TEST(Groups, AreMadeWithOperationsInFlight) {
  run_on_hosts(
      4, [](int rank) { return rank / 2; },
      [](Communicator& world) {
        std::vector<float> data(200'000, 1.0f);
        Work pending = world.allreduce(data);
        Communicator node = world.node();
        Communicator column = world.across();
        require(column.allreduce(node.allreduce(1).wait()).wait() == 4, "rows, then columns");
        pending.wait();
        require(data.back() == 4.0f, "what was in flight");
      });
}

// Meanwhile the other ranks make calls of their own, and are not involved.
TEST(Groups, AreMadeByTheirMembersAlone) {
  run_on_hosts(
      5, [](int rank) { return rank / 3; },
      [](Communicator& world) {
        const std::vector<int> members{4, 1, 3};
        const bool is_member = std::ranges::count(members, world.rank()) > 0;
        if (!is_member) {
          int in = -1;
          const int peer = 2 - world.rank();
          Work sent = world.send(ConstBuffer(&peer, 1, DType::i32), peer);
          world.recv(Buffer(&in, 1, DType::i32), peer).wait();
          sent.wait();
          require(in == world.rank(), "their own message");
        } else {
          for (int use = 0; use < 3; ++use) {  // the same name is used several times
            Communicator group = world.group(members, "some");
            require(world_ranks(group) == members, "the members in their order");
            require(group.allreduce(world.rank()).wait() == 8, "their sum");
            Communicator other = world.group(members, "other"), again = world.group(members, "some");
            std::vector<int> a(1000, 1), b(1000, 2), c(1000, 3);
            const Work first = group.allreduce(a), second = other.allreduce(b), third = again.allreduce(c);
            third.wait();
            second.wait();
            first.wait();
            require(a.front() == 3 && b.front() == 6 && c.back() == 9, "groups with their own messages");
            if (group.rank() > 0) {
              Communicator pair = group.group(std::vector<int>{2, 1}, "some");
              require(world_ranks(pair) == std::vector<int>{3, 1} && pair.allreduce(1).wait() == 2, "a group of it");
            }
            if (world.rank() == 4) require(world.group(std::vector<int>{4}, "alone").size() == 1, "one rank");
          }
        }
        world.barrier().wait();
      });
}

TEST(Groups, OfMembersAloneFailAlone) {
  Settings settings = test_settings("inproc");
  settings.timeout = 1;
  std::string said;
  run_ranks(3, settings, [&](Communicator& world) {
    const std::vector<int> pair{0, 1};
    if (world.rank() == 0) {
      try {
        world.group(pair, "lonely");
      } catch (const Error& error) {
        require(error.code() == Code::timeout && error.culprit() == 1, error.what());
        said = error.what();
      }
      for (const int peer : {1, 2}) world.send(ConstBuffer(&peer, 1, DType::i32), peer).wait();
    } else {
      int in = 0;
      world.recv(Buffer(&in, 1, DType::i32), 0, 0, {.timeout = no_deadline}).wait();
    }
    world.barrier().wait();
    if (world.rank() < 2) require(world.group(pair, "not lonely").size() == 2, "the next one");
  });
  EXPECT_EQ(said.substr(0, 58), "group 'lonely': not all of its members made it: allgather(");
}

TEST(Groups, WhoIsNotListedMakesNone) {
  run_ranks(2, test_settings("inproc"), [](Communicator& world) {
    EXPECT_EQ(refusal([&] { world.group(std::vector<int>{1 - world.rank()}, "x"); }),
              "group: rank " + std::to_string(world.rank()) + " is not listed; the listed ranks alone make the group");
    EXPECT_EQ(refusal([&] {
                world.group(std::vector<int>{0, 2}, "x");
              }),
              "group: rank 2 is listed twice or is not one of 0 to 1");
    world.barrier().wait();
  });
}

/// Returns the error text of each rank.
std::vector<std::string> refusals(int size, const std::function<void(Communicator&)>& body) {
  std::vector<std::string> said(static_cast<std::size_t>(size));
  run_ranks(size, test_settings("inproc"), [&](Communicator& world) {
    try {
      body(world);
    } catch (const Error& error) {
      said[static_cast<std::size_t>(world.rank())] = error.what();
    }
    world.barrier().wait();  // the communicator must still work
  });
  return said;
}

TEST(Groups, RanksThatMakeDifferentGroupsAreAllTold) {
  const auto said = refusals(3, [](Communicator& world) { world.rank() == 1 ? world.across() : world.node(); });
  EXPECT_EQ(said[0],
            "the ranks do not agree: rank 0 called node, but rank 1 called across. All ranks must make the same groups "
            "in the same order.");
  EXPECT_EQ(said[1],
            "the ranks do not agree: rank 1 called across, but rank 0 called node. All ranks must make the same groups "
            "in the same order.");
  EXPECT_EQ(said[2],
            "the ranks do not agree: rank 2 called node, but rank 1 called across. All ranks must make the same "
            "groups in the same order.");
}

TEST(Groups, RanksThatListDifferentRanksAreAllTold) {
  const auto said = refusals(3, [](Communicator& world) {
    const std::vector<int> mine{0, world.rank() == 2 ? 2 : 1};
    world.subgroup(mine);
  });
  EXPECT_EQ(said[0],
            "subgroup: rank 2 does not list the same ranks as rank 0; all ranks must pass one list, also those "
            "that are not in it");
  for (const std::string& line : said) EXPECT_NE(line, "");
}

TEST(Groups, AListWithARankTwiceIsRefused) {
  const auto said = refusals(2, [](Communicator& world) {
    const std::vector<int> twice{1, 1};
    world.subgroup(twice);
  });
  for (const std::string& line : said) EXPECT_EQ(line, "subgroup: rank 1 is listed twice or is not one of 0 to 1");
}

}  // namespace
}  // namespace tutti::testing
