// The axes (independent choices) and presets of a strategy's configuration, fragments and groups. Without LibTorch.
#include "engine/strategies/axes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/config.hpp"
#include "engine/config/tables.hpp"
#include "engine/strategies/fragments.hpp"
#include "engine/strategies/partners.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;

Config config_of(const std::vector<std::string>& words) {
  Config config;
  for (const std::string& word : words) config.set(word);
  return config;
}

Axes axes(const std::vector<std::string>& words) { return axes_of(config_of(words)); }

TEST(Presets, AllGoTogether) {
  std::set<std::string_view> names;
  for (const ChoiceInfo& each : strategy_table()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_FALSE(each.meaning.empty()) << each.name;
    EXPECT_EQ(each.options.size(), axis_options().size()) << each.name;
    EXPECT_EQ(axes({"strategy=" + std::string(each.name)}).preset, each.name);
  }
  for (const char* name : {"bsp", "local-sgd", "post-local-sgd", "dsgd", "gosgd", "diloco", "streaming-diloco",
                           "eager-diloco", "noloco", "sparseloco", "sparta"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Presets, AreKnownByOtherSpellingsAndOtherKeys) {
  for (const char* word :
       {"strategy=local-sgd", "strategy=local_sgd", "strategy=Local-SGD", "rule=local-sgd", "sync_rule=local-sgd",
        "sync.rule=local-sgd", "train_mode=local-sgd", "semi_sync_method=local_sgd", "strategy.name=LOCAL_SGD"})
    EXPECT_EQ(axes({word}).preset, "local-sgd") << word;
  for (const char* key : {"strategy.every", "sync.every", "sync_every", "sync_steps", "local_sgd_steps", "avg_freq"})
    EXPECT_EQ(axes({"strategy=diloco", std::string(key) + "=5"}).every, 5) << key;
  const Axes streaming = axes({"strategy=streaming_diloco", "fragment_sync_delay=3", "fragment_update_alpha=0.25",
                               "num_fragments=2", "should_quantize=true"});
  EXPECT_EQ(streaming.delay, 3);
  EXPECT_EQ(streaming.alpha, 0.25);
  EXPECT_EQ(streaming.fragments, 2);
  EXPECT_EQ(streaming.codec.kind, CodecChoice::Kind::int8);
  EXPECT_EQ(axes({"strategy=sparta", "strategy.codec=mask", "p_sparta=0.25"}).codec.part, 0.25);
}

TEST(SubMasters, AreKeysOfServers) {
  EXPECT_EQ(axes({"strategy=easgd"}).server.submasters, 0);
  const Axes found = axes({"strategy=easgd", "strategy.submasters=3", "strategy.submaster_every=8", "masters=1"});
  EXPECT_EQ(found.server.submasters, 3);
  EXPECT_EQ(found.server.submaster_every, 8);
  EXPECT_THAT(refusal([] {
                (void)axes({"strategy=easgd", "strategy.submasters=3", "masters=2"});
              }),
              HasSubstr("leave strategy.masters out"));
  EXPECT_THAT(refusal([] {
                (void)axes({"strategy=easgd", "strategy.submaster_every=2"});
              }),
              HasSubstr("say strategy.submasters"));
}

TEST(Codecs, AreReadWithTheirArguments) {
  const auto codec = [](const std::string& text) { return axes({"strategy.codec=" + text}).codec; };
  EXPECT_EQ(codec("int8").chunk, 64);
  EXPECT_EQ(codec("int8:128").chunk, 128);
  EXPECT_EQ(codec("topk:2/64+2bit"), codec("top_k:2/64+2bit"));
  EXPECT_EQ(codec("top_k:2/64+2bit").kept, 2);
  EXPECT_TRUE(codec("top_k:2/64+2bit").two_bit_values);
  EXPECT_EQ(codec("top_k:0.05").part, 0.05);
  EXPECT_EQ(codec("powersgd:4").rank, 4);
  EXPECT_EQ(codec("dct:32/64").chunk, 64);
  EXPECT_EQ(codec("bf16").feedback, 0);
  EXPECT_EQ(codec("int8").feedback, 1);
  for (const char* text : {"none", "int8:128", "e3m0:32", "2bit:64", "sign:64", "top_k:2/64+2bit", "top_k:0.05",
                           "mask:0.005", "dct:32/64", "power_sgd:4"}) {
    EXPECT_EQ(codec(text).describe(), text);
    EXPECT_EQ(codec(codec(text).describe()), codec(text)) << text;
  }
  for (const auto& [bad, why] : {std::pair{"zip", "expected one of none, f16"},
                                 {"int8:0", "not a number above 0"},
                                 {"int8:x", "not a number above 0"},
                                 {"top_k:9/8", "keep at most"},
                                 {"top_k:1.5", "at most 1"},
                                 {"bf16:2", "takes no argument"},
                                 {"int8:64+2bit", "+2bit is for top_k"},
                                 {"dct", "dct:32/64"}})
    EXPECT_THAT(refusal([&] { codec(bad); }), HasSubstr(why)) << bad;
}

TEST(Axes, ThatDoNotGoTogetherAreRefusedInALine) {
  using Words = std::vector<std::string>;
  for (const auto& [words, why] :
       {std::pair{Words{"strategy.every=4"}, "gradients travel in every step"},
        {{"strategy=bsp", "strategy.outer=sgd"}, "strategy.what=deltas"},
        {{"strategy=diloco", "strategy.outer=ftrl"}, "expected none, sgd, heavyball"},
        {{"strategy=diloco", "strategy.fragments=65"}, "make strategy.every at least as large"},
        {{"strategy=diloco", "strategy.delay=1"}, "strategy.apply=late"},
        {{"strategy=streaming-diloco", "strategy.delay=16"}, "less than strategy.every / strategy.fragments, 16"},
        {{"strategy=local-sgd", "strategy.outer=sgd"}, "for strategy.what=deltas"},
        {{"strategy=local-sgd", "strategy.merge=radial"}, "strategy.merge=radial"},
        {{"strategy=noloco", "strategy.codec=int8"}, "leave codec, fragments and apply out"},
        {{"strategy=noloco", "strategy.judged=exchange"}, "say mean or outer"},
        {{"strategy=diloco", "strategy.consensus=1"}, "strategy.how=pairs"},
        {{"strategy=diloco", "strategy.members=quorum"}, "strategy.how=server"},
        {{"strategy=diloco", "strategy.alpha=2"}, "at most 1"},
        {{"strategy=sparta", "strategy.feedback=2"}, "at most 1"},
        {{"strategy=gosgd", "strategy.probability=0"}, "strategy.probability"},
        {{"strategy=dilocco"}, "'diloco'"},
        {{"strategy=streaming-diloco", "strategy.merge=tokens", "strategy.apply=eager", "strategy.judged=mean",
          "strategy.delay=0"},
         "strategy.apply=eager"}})
    EXPECT_THAT(refusal([&] { axes(words); }), HasSubstr(why)) << words.back();
}

TEST(Axes, OptionsThatChangeNothingAreRefused) {
  const std::pair<const char*, const char*> without_effect[] = {{"bsp", "top_k=0.2"},
                                                                {"bsp", "outer_lr=0.3"},
                                                                {"bsp", "chunk=32"},
                                                                {"bsp", "feedback=0.5"},
                                                                {"bsp", "inner_every=4"},
                                                                {"bsp", "probability=0.5"},
                                                                {"local-sgd", "group=4"},
                                                                {"local-sgd", "overlap=false"},
                                                                {"local-sgd", "mask=0.1"},
                                                                {"diloco", "elastic=0.3"},
                                                                {"diloco", "outer_every=4"},
                                                                {"diloco", "power_rank=4"},
                                                                {"downpour", "elastic=0.3"},
                                                                {"easgd", "quorum=2"},
                                                                {"easgd", "kappa=3"},
                                                                {"downpour", "most_stale=4"},
                                                                {"gosgd", "every=4"},
                                                                {"gosgd", "scale_lr=true"},
                                                                {"post-local-sgd", "overlap=false"},
                                                                {"downpour", "grace=2"}};
  for (const auto& [preset, option] : without_effect)
    EXPECT_THAT(refusal([&] {
                  axes({"strategy=" + std::string(preset), "strategy." + std::string(option)});
                }),
                HasSubstr("changes nothing with strategy=" + std::string(preset)))
        << option;
  axes({"strategy=bsp", "strategy.codec=top_k", "strategy.top_k=0.2", "strategy.feedback=0.5"});
  EXPECT_EQ(axes({"strategy=easgd"}).server.elastic_force, 0.9);
  EXPECT_EQ(axes({"strategy=easgd", "strategy.elastic=0.3"}).server.elastic_force, 0);
  for (const auto& [codec, option] : {std::pair{"mask:0.005", "mask=0.05"},
                                      {"int8:64", "chunk=32"},
                                      {"power_sgd:2", "power_rank=4"},
                                      {"top_k:2/64", "top_k=0.5"}})
    EXPECT_THAT(refusal([&] {
                  axes({"strategy.codec=" + std::string(codec), "strategy." + std::string(option)});
                }),
                HasSubstr("which has a number of its own"));
  for (const ChoiceInfo& each : strategy_table()) {  // with all options, as in config.yaml
    Config config = config_of({"strategy=" + std::string(each.name)});
    for (const OptionInfo& option : each.options) config.strategy.options.emplace(option.key, option.value);
    EXPECT_EQ(axes_of(config).preset, each.name);
  }
}

TEST(Fragments, TakeWholeBlocksInTurns) {
  EXPECT_EQ(block_of("layers.3.fc.weight"), "layers.3");
  EXPECT_EQ(block_of("fc1.weight"), "fc1");
  EXPECT_EQ(block_of("weight"), "weight");
  const std::vector<std::string> names{"wte.weight", "h.0.a", "h.0.b", "h.1.a", "h.2.a", "ln.weight", "h.1.b"};
  EXPECT_THAT(fragments_of(names, 2), ElementsAre(0, 1, 1, 0, 1, 0, 0));
  EXPECT_THAT(fragments_of(names, 1), ::testing::Each(0));
  EXPECT_THAT(refusal([&] { fragments_of(names, 6); }), HasSubstr("5 blocks"));
  for (const std::size_t fragments : {1, 2, 3, 4, 5}) {
    std::vector<int> met(names.size(), 0);  // how many fragments have each tensor: must be one
    const std::vector<std::size_t> of = fragments_of(names, fragments);
    for (std::size_t f = 0; f < fragments; ++f)
      for (std::size_t i = 0; i < names.size(); ++i) met[i] += of[i] == f;
    EXPECT_THAT(met, ::testing::Each(1));
  }
}

TEST(Fragments, AreAudited) {
  const std::vector<std::size_t> none_in_one{0, 0, 2}, outside{0, 1, 3};
  EXPECT_THROW(audit_fragments(none_in_one, 3), Error);
  EXPECT_THROW(audit_fragments(outside, 3), Error);
}

TEST(Fragments, AreDueEveryHStepsEachAtItsOwn) {
  std::vector<std::vector<int>> due(3);
  for (int step = 1; step <= 14; ++step)
    for (int f = 0; f < 3; ++f)
      if (fragment_is_due(step, f, 3, 7)) due[static_cast<std::size_t>(f)].push_back(step);
  EXPECT_THAT(due[0], ElementsAre(2, 9));
  EXPECT_THAT(due[1], ElementsAre(4, 11));
  EXPECT_THAT(due[2], ElementsAre(7, 14));
}

TEST(Groups, ArePartitionsThatAllRanksDrawAlike) {
  std::set<std::vector<int>> pairs;
  for (const int ranks : {1, 2, 5, 8})
    for (std::uint64_t sync = 0; sync < 50; ++sync) {
      std::vector<int> met(static_cast<std::size_t>(ranks), 0);
      int singles = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> own = group_of(rank, ranks, 2, 7, sync);
        EXPECT_THAT(own, ::testing::Contains(rank));
        for (const int each : own) EXPECT_EQ(group_of(each, ranks, 2, 7, sync), own);
        singles += own.size() == 1;
        ++met[static_cast<std::size_t>(rank)];
        if (ranks == 5) pairs.insert(own);
      }
      EXPECT_EQ(singles, ranks % 2);
    }
  EXPECT_EQ(pairs.size(), 10U + 5U);  // every pair, and every rank alone, occurs
}

TEST(Groups, PushAsOftenAsTheProbabilityHasIt) {
  int pushes = 0;
  for (std::uint64_t step = 0; step < 1000; ++step)
    for (int rank = 0; rank < 4; ++rank) {
      const int to = pushes_to(rank, 4, 0.25, 3, step);
      EXPECT_NE(to, rank);
      EXPECT_LT(to, 4);
      pushes += to >= 0;
      EXPECT_GE(pushes_to(rank, 4, 1, 3, step), 0);
    }
  EXPECT_NEAR(pushes, 1000, 100);
  EXPECT_EQ(pushes_to(0, 1, 1, 3, 0), -1);
}

}  // namespace
}  // namespace tutti::engine
