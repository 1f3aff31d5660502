// The mesh that a configuration describes, the words that say how layers are split, and what is refused.
#include "engine/models/split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tutti::testing::refusal;

Config config_of(const std::vector<std::string>& words) {
  Config config;
  for (const std::string& word : words) config.set(word);
  return config;
}

std::string mesh(int ranks, const std::vector<std::string>& words) {
  return Mesh::name_of(mesh_axes(config_of(words), ranks));
}

TEST(Split, RanksThatNoAxisTakesHaveOtherSamples) {
  EXPECT_EQ(mesh(4, {}), "data 4");
  EXPECT_EQ(mesh(8, {"parallel.height=2", "parallel.width=2"}), "data 2 x height 2 x width 2");
  EXPECT_EQ(mesh(8, {"parallel.data=2", "parallel.tp=2", "parallel.cp=2"}), "data 2 x sequence 2 x tensor 2");
  EXPECT_EQ(mesh(6, {"parallel.dp=3", "parallel.depth=2"}), "data 3 x depth 2");
  EXPECT_EQ(mesh(1, {}), "data 1");
}

TEST(Split, NeonsWords) {
  EXPECT_EQ(mesh(4, {"parallel=datapar"}), "data 4");
  EXPECT_EQ(mesh(4, {"parallel=modelpar"}), "data 1 x tensor 4");
  EXPECT_EQ(mesh(5, {"dist_mode=vecpar"}), "data 1 x tensor 5");
  EXPECT_EQ(mesh(4, {"parallel=halopar"}), "data 1 x height 2 x width 2");
  EXPECT_EQ(mesh(6, {"parallel=halopar"}), "data 1 x height 3 x width 2");
  EXPECT_EQ(mesh(3, {"parallel=halopar"}), "data 1 x height 3");
  EXPECT_EQ(mesh(8, {"parallel=halodatapar"}), "data 2 x height 2 x width 2");
  EXPECT_EQ(mesh(4, {"parallel=halodatapar", "parallel.width=2"}), "data 2 x width 2");
  EXPECT_EQ(mesh(6, {"parallel=vecpar", "parallel.data=2"}), "data 2 x tensor 3");
  EXPECT_EQ(split_choices(config_of({"parallel=vecpar"})).dense, Split::row);
  EXPECT_TRUE(split_choices(config_of({"parallel=halopar"})).images_first);
}

TEST(Split, AMeshThatDoesNotFitIsRefusedInOneLine) {
  const auto says = [](int ranks, const std::vector<std::string>& words) {
    return refusal([&] { mesh(ranks, words); });
  };
  EXPECT_THAT(says(3, {"parallel.data=2", "parallel.height=2"}),
              AllOf(HasSubstr("mesh data 2 x height 2 has 4 ranks"), HasSubstr("3: start that many")));
  EXPECT_THAT(says(3, {"parallel.tensor=2"}), AllOf(HasSubstr("tensor 2"), HasSubstr("a multiple of 2 ranks")));
  EXPECT_THAT(says(4, {"parallel=vecpar", "parallel.height=2"}), AllOf(HasSubstr("vecpar"), HasSubstr("height")));
}

TEST(Split, LayersByName) {
  const auto found =
      split_choices(config_of({"parallel.layers=conv1=halopar,fc1=column,fc2=vecpar,block1=datapar"})).layers;
  EXPECT_EQ(found.at("conv1"), Split::space);
  EXPECT_EQ(found.at("fc1"), Split::column);
  EXPECT_EQ(found.at("fc2"), Split::row);
  EXPECT_EQ(found.at("block1"), Split::replicate);
  EXPECT_THAT(refusal([] { parse_splits("fc1=sideways"); }), AllOf(HasSubstr("sideways"), HasSubstr("column")));
  EXPECT_THAT(refusal([] { parse_splits("fc1"); }), HasSubstr("LAYER=HOW"));
  for (const Split split : {Split::automatic, Split::replicate, Split::column, Split::row, Split::space})
    EXPECT_EQ(parse_split(name_of(split)), split);
}

TEST(Split, WhatGoesWithSamplesInPartsAlone) {
  const auto says = [](const std::string& word) {
    const Config config = config_of({"parallel.tensor=2", word});
    return refusal([&] { config.check_split(2); });
  };
  EXPECT_THAT(says("strategy=diloco"), AllOf(HasSubstr("tensor 2"), HasSubstr("strategy=bsp")));
  EXPECT_THAT(says("strategy=downpour"), HasSubstr("strategy=bsp"));
  EXPECT_THAT(says("strategy.codec=f16"), HasSubstr("strategy.codec"));
  EXPECT_THAT(says("deterministic=membership"), HasSubstr("deterministic=off"));
  EXPECT_THAT(says("optimizer=lars"), HasSubstr("lars"));
  config_of({"parallel.tensor=2", "optimizer=adamw"}).check_split(2);
  config_of({"strategy=diloco"}).check_split(2);
}

}  // namespace
}  // namespace tutti::engine
