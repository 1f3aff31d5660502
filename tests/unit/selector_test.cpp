// Rules that choose backends and algorithms: their text, their order, and the choice if a target cannot make the call.
#include "collectives/route/selector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/plan/algorithm.hpp"
#include "collectives/plan/planned_backend.hpp"
#include "collectives/route/rules.hpp"
#include "tests/support/caught.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti {
namespace {

using testing::caught;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kib = 1024;
const std::vector<std::string> others = {"mpi", "gloo"};

const Settings standard;

std::vector<Rule> parsed(std::string_view text, std::span<const std::string> backends = others) {
  return parse_rules(text, "here", {backends, standard});
}

// A backend that can make allreduces by two algorithms, and nothing else.
class Foreign final : public Backend {
 public:
  std::string_view name() const noexcept override { return "gloo"; }
  Status supports(const Collective& call, std::string_view algorithm) const override {
    if (call.kind != Kind::allreduce) return Status::failure(Code::unsupported, "allreduce only");
    if (algorithm.empty() || algorithm == "bcube" || algorithm == "ring") return {};
    return Status::failure(Code::invalid, "gloo has no algorithm '" + std::string(algorithm) + "'");
  }
  void start(Call& call) override { call.ended({}); }
  void cancel(const Status&) noexcept override {}
  bool progress() override { return false; }
  Fds fds() const noexcept override { return {}; }
  bool arm(bool) override { return true; }
};

struct NobodyListens final : TransportListener {
  void failed(const Cause&) override {}
  void control(int, ConstBytes) override {}
};

// The selector's view of a communicator of `size` ranks.
class World {
 public:
  explicit World(int size, bool foreign = false) {
    Rendezvous meeting;
    meeting.size = size;
    meeting.settings = &settings_;
    meeting.listener = &listener_;
    for (const Provider* one : providers())
      if (one->name == "inproc") wire_ = one->connect(meeting).transport;
    Group group{.id = 1};
    std::vector<int> members;
    for (int rank = 0; rank < size; ++rank) members.push_back(rank);
    group.members = members;
    backends_.push_back(std::make_shared<PlannedBackend>(*wire_, group, settings_));
    if (foreign) backends_.push_back(std::make_shared<Foreign>());
  }
  const Backends& backends() const { return backends_; }

 private:
  Settings settings_;
  NobodyListens listener_;
  std::unique_ptr<Transport> wire_;
  Backends backends_;
};

Selector selector_of(const std::string& select, const std::string& backend = "", std::string_view tuned = "") {
  Settings settings;
  settings.select = select;
  settings.backend = backend;
  return Selector(settings, tuned, others);
}

struct Asked {
  Kind kind = Kind::allreduce;
  std::size_t bytes = 0;
  int size = 4;
  int hosts = 1;
  bool variable = false;
  bool foreign = false;
};

Collective call_of(const Asked& asked) {
  Collective call;
  call.kind = asked.kind;
  call.variable = asked.variable;
  return call;
}

Facts facts_of(const Asked& asked) { return {asked.kind, asked.bytes, asked.size, asked.hosts}; }

std::string chosen(const Selector& selector, const Asked& asked) {
  const World world(asked.size, asked.foreign);
  const Choice choice = selector.choose(call_of(asked), facts_of(asked), world.backends());
  if (choice.backend == nullptr) return "none";
  if (choice.backend->name() != PlannedBackend::own_name)
    return std::string(choice.backend->name()) + (choice.algorithm.empty() ? "" : "/") + std::string(choice.algorithm);
  return std::string(choice.algorithm);
}

std::string explained(const Selector& selector, const Asked& asked) {
  const World world(asked.size, asked.foreign);
  return selector.explain(call_of(asked), facts_of(asked), world.backends());
}

TEST(ParseRules, ReadsRangesOfBytesAndRanks) {
  const auto rules =
      parsed("allreduce: ..64K=recursive_doubling, 64K..2M ranks 3..8 hosts 2..=ring; broadcast: .. ranks 4..=chain");
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].kind, Kind::allreduce);
  EXPECT_EQ(rules[0].bytes.low, 0u);
  EXPECT_EQ(rules[0].bytes.high, 64 * kib);
  EXPECT_EQ(rules[0].ranks.low, 0u);
  EXPECT_EQ(rules[0].ranks.high, SIZE_MAX);
  EXPECT_EQ(rules[0].target.algorithm, "recursive_doubling");
  EXPECT_EQ(rules[0].target.backend, "planned");
  EXPECT_EQ(rules[1].hosts.low, 2u);
  EXPECT_EQ(rules[0].source, "here");
  EXPECT_EQ(rules[1].bytes.low, 64 * kib);
  EXPECT_EQ(rules[1].bytes.high, 2048 * kib);
  EXPECT_EQ(rules[1].ranks.low, 3u);
  EXPECT_EQ(rules[1].ranks.high, 8u);
  EXPECT_EQ(rules[2].kind, Kind::broadcast);
  EXPECT_EQ(rules[2].bytes.low, 0u);
  EXPECT_EQ(rules[2].bytes.high, SIZE_MAX);
  EXPECT_EQ(rules[2].ranks.low, 4u);
  EXPECT_EQ(rules[2].ranks.high, SIZE_MAX);
}

TEST(ParseRules, BlanksAndEmptyPartsMeanNothing) {
  EXPECT_TRUE(parsed("").empty());
  EXPECT_TRUE(parsed(" ; ;\n").empty());
  const auto rules = parsed("  allreduce :\t1K .. 2K  ranks 2 .. 4 \ton  cpu = ring , ;");
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(to_string(rules[0]), "allreduce: 1024..2048 ranks 2..4 on cpu=ring");
}

TEST(ParseRules, WhatIsPrintedReadsTheSame) {
  for (const std::string text :
       {"allreduce: ..=ring", "allreduce: 5..=ring", "allreduce: ..5=ring", "allreduce: 5..5 ranks 2..=ring",
        "allgather: .. ranks 1..7=bruck", "barrier: ..=dissemination", "*: 1..=mpi",
        "allreduce: .. ranks 2.. hosts 2..4 on cuda=gloo/bcube", "reduce: ..=planned"}) {
    const auto rules = parsed(text);
    ASSERT_EQ(rules.size(), 1u) << text;
    const auto again = parsed(to_string(rules[0]));
    ASSERT_EQ(again.size(), 1u) << text;
    EXPECT_EQ(to_string(again[0]), to_string(rules[0]));
  }
  EXPECT_EQ(to_string(parsed("allreduce: 4K.. ranks 3.. = planned/tree")[0]), "allreduce: 4096.. ranks 3..=tree");
}

TEST(ParseRules, ExactWordsForWhatCannotBeRead) {
  const std::string hint = "; write for example 'allreduce: ..64K=recursive_doubling, 64K.. ranks 3..=ring'";
  const std::pair<std::string, std::string> table[] = {
      {"ring", "cannot read the selection rule 'ring': 'kind:' is missing"},
      {"allreduce=ring", "cannot read the selection rule 'allreduce=ring': 'kind:' is missing"},
      {"allredcue: ..=ring",
       "cannot read the selection rule 'allredcue: ..=ring': there is no collective 'allredcue', nor is it 'network'"},
      {"allreduce: ..64K", "cannot read the selection rule '..64K': '=algorithm' is missing"},
      {"allreduce: ..64K=ring, 7", "cannot read the selection rule '7': '=algorithm' is missing"},
      {"allreduce: 64K=ring", "cannot read the selection rule '64K=ring': a range LOW..HIGH is missing"},
      {"allreduce: .. ranks 2=ring", "cannot read the selection rule '.. ranks 2=ring': a range LOW..HIGH is missing"},
      {"allreduce: 2K..1K=ring", "cannot read the selection rule '2K..1K=ring': the range is empty"},
      {"allreduce: .. ranks 4..3=ring", "cannot read the selection rule '.. ranks 4..3=ring': the range is empty"},
      {"allreduce: .. on tpu=ring", "cannot read the selection rule '.. on tpu=ring': 'on' takes cpu or cuda"},
      {"*: ..=ring",
       "cannot read the selection rule '..=ring': there is no backend 'ring' here, but planned, mpi, gloo; "
       "`tutti info` says what else could be built"},
      {"barrier: ..=nccl/x",
       "cannot read the selection rule '..=nccl/x': there is no backend 'nccl' here, but planned, mpi, gloo"},
      {"broadcast: ..=ring", "cannot read the selection rule '..=ring': broadcast has no algorithm 'ring', but " +
                                 algorithm_names(Kind::broadcast) + " (and the backends planned, mpi, gloo)"},
      {"barrier: ..=", "cannot read the selection rule '..=': barrier has no algorithm '', but " +
                           algorithm_names(Kind::barrier) + " (and the backends planned, mpi, gloo)"},
  };
  for (const auto& [text, why] : table) {
    const Error error = caught([&] { parsed(text); });
    EXPECT_EQ(error.code(), Code::invalid) << text;
    EXPECT_EQ(std::string(error.what()), why + hint);
  }
}

TEST(ParseRules, KnowTheAlgorithmsOfEachBackend) {
  const std::vector<std::string> backends{"shm", "staged"};
  EXPECT_EQ(
      parsed("allreduce: ..=shm/two_copy; *: ..=shm, ..=shm/one_shot, ..=planned/ring; scatter: ..=staged", backends)
          .size(),
      5u);
  const auto refused = [&](std::string_view text) {
    return std::string(caught([&] { parsed(text, backends); }).what());
  };
  EXPECT_THAT(refused("allreduce: ..=shm/rounds"),
              HasSubstr("shm has no algorithm 'rounds' for allreduce, but ll, one_shot, two_copy, zero_copy"));
  EXPECT_THAT(refused("*: ..=shm/rounds"), HasSubstr("shm has no algorithm 'rounds' for any collective, but ll, "));
  EXPECT_THAT(refused("allreduce: ..=staged/ring"),
              HasSubstr("staged has no algorithm 'ring' for allreduce; it chooses by itself: write 'staged'"));
  EXPECT_THAT(refused("broadcast: ..=planned/ring"),
              HasSubstr("planned has no algorithm 'ring' for broadcast, but " + algorithm_names(Kind::broadcast)));
  EXPECT_THAT(refused("*: ..=planned/rings"), HasSubstr("planned has no algorithm 'rings' for any collective, but "));
}

TEST(ParseRules, NumbersThatAreNone) {
  for (const std::string text : {"x..", "..1e3", "-1..", "..9999999999G", "1T.."}) {
    const Error error = caught([&] { parsed("allreduce: " + text + "=ring"); });
    EXPECT_EQ(error.code(), Code::invalid) << text;
    EXPECT_THAT(error.what(), HasSubstr("is not a number of bytes")) << text;
  }
}

TEST(ParseRules, AFileOfAnotherInstallationIsReadAsFarAsItGoes) {
  std::vector<int> unread;
  const auto rules = rules::parse_leniently(
      "# measured\nallreduce: ..1K=tree; allreduce: ..=nccl\n nonsense # too\nbroadcast: ..=chain\n", "tuned",
      {others, standard}, [&](int line, std::string_view) { unread.push_back(line); });
  EXPECT_EQ(unread, (std::vector<int>{2, 3}));
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(to_string(rules[0]), "allreduce: ..1024=tree");
  EXPECT_EQ(to_string(rules[1]), "broadcast: ..=chain");
}

TEST(Selector, TheFirstRuleThatMatchesWins) {
  const Selector selector = selector_of("allreduce: ..100=tree, ..100=ring, 50..=direct");
  EXPECT_EQ(chosen(selector, {.bytes = 0}), "tree");
  EXPECT_EQ(chosen(selector, {.bytes = 100}), "tree");
  EXPECT_EQ(chosen(selector, {.bytes = 101}), "direct");
}

TEST(Selector, RanksAndHostsBoundARuleAtBothEnds) {
  const Selector selector = selector_of("allreduce: .. ranks 3..5=tree, .. hosts 2..3=direct, ..=ring");
  for (const int size : {1, 2, 6, 100}) EXPECT_EQ(chosen(selector, {.bytes = 8, .size = size}), "ring") << size;
  for (const int size : {3, 4, 5}) EXPECT_EQ(chosen(selector, {.bytes = 8, .size = size}), "tree") << size;
  for (const int hosts : {1, 4}) EXPECT_EQ(chosen(selector, {.size = 8, .hosts = hosts}), "ring") << hosts;
  for (const int hosts : {2, 3}) EXPECT_EQ(chosen(selector, {.size = 8, .hosts = hosts}), "direct") << hosts;
}

TEST(Selector, OverridesComeBeforeTheBuiltInRulesAndLeaveTheRestAlone) {
  const Selector plain = selector_of(""), selector = selector_of("allreduce: 1K..2K=tree");
  ASSERT_NE(chosen(plain, {.bytes = 1536}), "tree");
  EXPECT_EQ(chosen(selector, {.bytes = 1536}), "tree");
  EXPECT_EQ(selector.rules().size(), plain.rules().size() + 1);
  EXPECT_EQ(selector.rules().front().source, "TUTTI_SELECT");
  EXPECT_EQ(selector.rules().back().source, "built in");
  for (const std::size_t bytes : {std::size_t{8}, 1 * kib - 1, 2 * kib + 1, 1024 * kib})
    for (const Kind kind : {Kind::allreduce, Kind::allgather})
      EXPECT_EQ(chosen(selector, {kind, bytes}), chosen(plain, {kind, bytes})) << bytes;
}

TEST(Selector, ThePreferredBackendComesAfterTheUsersRulesAndBeforeTheMeasuredOnes) {
  const Selector selector = selector_of("allreduce: ..10=tree", "gloo", "allreduce: ..=direct; reduce: ..=linear");
  EXPECT_EQ(chosen(selector, {.bytes = 10, .foreign = true}), "tree");
  EXPECT_EQ(chosen(selector, {.bytes = 11, .foreign = true}), "gloo");
  EXPECT_EQ(chosen(selector, {.bytes = 11}), "direct") << "not made for this communicator";
  EXPECT_EQ(chosen(selector, {.kind = Kind::reduce, .bytes = 1 << 20, .foreign = true}), "linear")
      << "what gloo does not support goes on to the next rule";
}

TEST(Selector, RefusesAPreferredBackendsAlgorithmThatNobodyHas) {
  EXPECT_THAT(caught([] { selector_of("", "planned/rings"); }).what(),
              StartsWith("planned has no algorithm 'rings' for any collective, but "));
}

TEST(Selector, TellsOnceOfRulesThatArePassedOver) {
  const Selector selector = selector_of("allreduce: ..=mpi");
  EXPECT_TRUE(selector.is_first_to_tell("mpi"));
  EXPECT_FALSE(selector.is_first_to_tell("mpi"));
  EXPECT_TRUE(selector.is_first_to_tell("gloo"));
}

TEST(Selector, OurOwnPlansAloneMeanTheBuiltInRules) {
  const Selector plain = selector_of(""),
                 preferred = selector_of("reduce: ..=linear", "planned,gloo", "allreduce: ..=tree");
  for (const std::size_t bytes : {std::size_t{8}, 64 * kib, 1024 * kib}) {
    const Asked asked{.bytes = bytes, .foreign = true};
    EXPECT_EQ(chosen(preferred, asked), chosen(plain, asked)) << bytes;
    const World world(4);
    EXPECT_EQ(plain.require("planned", call_of(asked), facts_of(asked), world.backends()).algorithm,
              chosen(plain, asked));
  }
}

TEST(Selector, NamesTheBackendsThatARuleWantsForSuchACommunicator) {
  const Selector selector = selector_of("allreduce: .. ranks 4..=mpi, .. hosts 2..=gloo", "");
  EXPECT_TRUE(selector.named(2, 1).empty());
  ASSERT_EQ(selector.named(4, 1).size(), 1u);
  EXPECT_EQ(selector.named(4, 1)[0].backend, "mpi");
  EXPECT_FALSE(selector.named(4, 1)[0].insisted);
  EXPECT_TRUE(selector.named(4, 1)[0].by_user);
  EXPECT_EQ(selector.named(4, 2).size(), 2u);
  const auto preferred = selector_of("allreduce: ..=mpi", "planned,mpi").named(1, 1);
  ASSERT_EQ(preferred.size(), 1u);
  EXPECT_TRUE(preferred[0].insisted);
  const auto measured = selector_of("", "", "allreduce: ..=mpi").named(1, 1);
  ASSERT_EQ(measured.size(), 1u);
  EXPECT_FALSE(measured[0].insisted || measured[0].by_user);
  EXPECT_TRUE(selector_of("").named(8, 4).empty());
}

TEST(Selector, ARuleWhoseAlgorithmDoesNotFitIsPassedOver) {
  const Selector selector = selector_of("allgather: ..=recursive_doubling, ..=linear");  // first: powers of two only
  EXPECT_EQ(chosen(selector, {.kind = Kind::allgather, .bytes = 8, .size = 4}), "recursive_doubling");
  EXPECT_EQ(chosen(selector, {.kind = Kind::allgather, .bytes = 8, .size = 3}), "linear");
}

TEST(Selector, ARuleWhoseAlgorithmHasNoVFormIsPassedOverForIt) {
  const Selector selector = selector_of("alltoall: ..=bruck, ..=linear");
  EXPECT_EQ(chosen(selector, {.kind = Kind::alltoall, .bytes = 8}), "bruck");
  EXPECT_EQ(chosen(selector, {.kind = Kind::alltoall, .variable = true}), "linear");
}

TEST(Selector, BuiltInRulesCoverEveryCall) {
  const Selector selector = selector_of("");
  for (const int size : {1, 2, 3, 4, 7, 8, 64, 1000}) {
    const World world(size);
    for (int kind = 0; kind < kind_count; ++kind) {
      if (static_cast<Kind>(kind) == Kind::send) continue;
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 16 * kib, 16 * kib + 1, std::size_t{1} << 40}) {
        const Asked asked{static_cast<Kind>(kind), bytes, size};
        const Choice choice = selector.choose(call_of(asked), facts_of(asked), world.backends());
        ASSERT_NE(choice.rule, nullptr) << name(asked.kind) << " of " << bytes << " bytes on " << size;
        EXPECT_EQ(choice.rule->source, "built in");
        EXPECT_EQ(*choice.rule->kind, asked.kind);
      }
    }
  }
  for (const Kind kind : {Kind::allgather, Kind::gather, Kind::scatter, Kind::alltoall, Kind::reduce_scatter})
    EXPECT_NE(chosen(selector, {.kind = kind, .size = 5, .variable = true}), "none") << name(kind);
}

TEST(Selector, WhatACallInsistsOnIsTakenOrRefused) {
  const Selector selector = selector_of("");
  const World world(3, true), without(3);
  const auto required = [&](const std::string& wanted, const Asked& asked, const World& where) {
    const Choice choice = selector.require(wanted, call_of(asked), facts_of(asked), where.backends());
    return std::string(choice.backend->name()) + "/" + std::string(choice.algorithm);
  };
  EXPECT_EQ(required("tree", {}, world), "planned/tree");
  EXPECT_EQ(required(" planned / tree ", {}, world), "planned/tree");
  EXPECT_EQ(required("gloo", {}, world), "gloo/");
  EXPECT_EQ(required("gloo/bcube", {}, world), "gloo/bcube");
  const auto refused = [&](const std::string& wanted, const Asked& asked, const World& where) {
    return std::string(caught([&] { required(wanted, asked, where); }).what());
  };
  EXPECT_THAT(refused("gloo", {}, without), HasSubstr("was not made for this communicator"));
  EXPECT_EQ(refused("gloo", {.kind = Kind::reduce}, world), "allreduce only");
  EXPECT_THAT(refused("nothing", {}, world), HasSubstr("allreduce has no algorithm 'nothing', but "));
  EXPECT_THAT(refused("recursive_doubling", {.kind = Kind::allgather, .size = 3}, world),
              HasSubstr("does not work on 3 ranks of 1 host;"));
  EXPECT_THAT(refused("bruck", {.kind = Kind::alltoall, .size = 3, .variable = true}, world),
              HasSubstr("does not take counts per rank"));
}

TEST(Selector, ExplainsWhichRuleItWasAndWhatElseThereIs) {
  const Selector selector = selector_of("allgather: 64K.. ranks 3..=recursive_doubling", "gloo");
  const std::string all = explained(selector, {.kind = Kind::allgather, .bytes = 64 * kib, .foreign = true});
  EXPECT_THAT(all, StartsWith("planned/recursive_doubling: rule 'allgather: 65536.. ranks 3..=recursive_doubling' "
                              "(TUTTI_SELECT); not chosen: bruck, "));
  EXPECT_THAT(all, HasSubstr(", ring, tree, gloo (allreduce only)"));
  EXPECT_THAT(explained(selector, {.bytes = 8, .foreign = true}),
              StartsWith("gloo: rule '*: ..=gloo' (TUTTI_BACKEND); not chosen: "));
  EXPECT_THAT(explained(selector, {.kind = Kind::allgather, .bytes = 8}),
              StartsWith("planned/bruck: rule 'allgather: "));
  EXPECT_THAT(explained(selector, {.kind = Kind::barrier, .size = 3}),
              StartsWith("planned/dissemination: rule 'barrier: ..=dissemination' (built in); not chosen: "));
}

}  // namespace
}  // namespace tutti
