// The names of tensors in torchvision, as its models list them.
#include "engine/models/names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;

TEST(TorchvisionNames, AreThoseOfResidualNetworks) {
  const std::pair<std::string, std::string> known[] = {
      {"stem.conv1.weight", "conv1.weight"},
      {"stem.norm1.running_var", "bn1.running_var"},
      {"block1_1.body.conv1.weight", "layer1.0.conv1.weight"},
      {"block1_2.body.conv2.weight", "layer1.1.conv2.weight"},
      {"block2_1.shortcut.conv1.weight", "layer2.0.downsample.0.weight"},
      {"block2_1.shortcut.norm1.num_batches_tracked", "layer2.0.downsample.1.num_batches_tracked"},
      {"block3_6.body.norm3.bias", "layer3.5.bn3.bias"},
      {"head.fc1.weight", "fc.weight"},
      {"head.fc1.bias", "fc.bias"},
  };
  std::vector<std::string> names;
  for (const auto& [own, theirs] : known) names.push_back(own);
  for (const char* model : {"resnet18", "resnet50"}) {
    const auto found = torchvision_names(model, names);
    for (const auto& [own, theirs] : known) EXPECT_EQ(found.at(own), theirs);
  }
}

TEST(TorchvisionNames, AreThePlacesInSequences) {
  const int vgg[] = {0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28}, alexnet[] = {0, 3, 6, 8, 10};
  const auto check = [](const char* model, std::span<const int> convolutions, std::span<const int> dense) {
    std::vector<std::string> names;
    std::set<std::string> theirs;
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      names.push_back("conv" + std::to_string(i + 1) + ".weight");
      theirs.insert("features." + std::to_string(convolutions[i]) + ".weight");
    }
    for (std::size_t i = 0; i < dense.size(); ++i) {
      names.push_back("fc" + std::to_string(i + 1) + ".bias");
      theirs.insert("classifier." + std::to_string(dense[i]) + ".bias");
    }
    std::set<std::string> found;
    for (const auto& [own, name] : torchvision_names(model, names)) found.insert(name);
    EXPECT_EQ(found, theirs) << model;
  };
  check("vgg16", vgg, std::vector{0, 3, 6});
  check("alexnet", alexnet, std::vector{1, 4, 6});
}

TEST(TorchvisionNames, AreThoseOfInceptionBlocks) {
  const std::pair<std::string, std::string> known[] = {
      {"stem.conv2.weight", "conv2.conv.weight"},
      {"stem.norm3.bias", "conv3.bn.bias"},
      {"inception3a.way1.conv1.weight", "inception3a.branch1.conv.weight"},
      {"inception4e.way2.conv2.weight", "inception4e.branch2.1.conv.weight"},
      {"inception5b.way3.norm1.weight", "inception5b.branch3.0.bn.weight"},
      {"inception3a.way4.conv1.weight", "inception3a.branch4.1.conv.weight"},
      {"head.fc1.weight", "fc.weight"},
  };
  std::vector<std::string> names;
  for (const auto& [own, theirs] : known) names.push_back(own);
  const auto found = torchvision_names("googlenet", names);
  for (const auto& [own, theirs] : known) EXPECT_EQ(found.at(own), theirs);
}

TEST(TorchvisionNames, ThereAreNoneForOtherNetworks) {
  EXPECT_TRUE(torchvision_names("lenet", std::vector<std::string>{"conv1.weight"}).empty());
  EXPECT_TRUE(torchvision_names("vgg16", std::vector<std::string>{"conv1.weight", "norm1.weight"}).empty());
  EXPECT_TRUE(torchvision_names("googlenet", std::vector<std::string>{"stem.conv1.weight"}).empty());
  for (const char* wrong : {"conv1", "conv14.weight", "conv0.weight", "other1.weight", "conv.weight", "conv1x.weight"})
    EXPECT_THAT(testing::refusal([&] { torchvision_names("vgg16", std::vector<std::string>{wrong}); }),
                HasSubstr("is no tensor of model=vgg16"));
}

}  // namespace
}  // namespace tutti::engine
