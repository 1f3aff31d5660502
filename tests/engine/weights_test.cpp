// Weights from files: under which names they are found, and what is refused.
#include "engine/loop/weights.hpp"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/checkpoint/saver.hpp"
#include "engine/data/tensors.hpp"
#include "engine/models/model.hpp"
#include "engine/models/names.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

class WeightsTest : public ::testing::Test {
 protected:
  static Network network(std::uint64_t seed, const std::string& name = "resnet18", std::int64_t classes = 10) {
    return make_model({.name = name,
                       .input = {3, 32, 32},
                       .classes = classes,
                       .options = name == "resnet18" ? Options::Given{{"width", "0.0625"}} : Options::Given{},
                       .seed = seed});
  }

  static Fields arrays_of(const Network& network) {
    Fields arrays;
    const NetworkTensors all = tensors_of(network);
    for (const auto* list : {&all.parameters, &all.buffers})
      for (const auto& [name, tensor] : *list) arrays[name] = to_array(tensor.detach().contiguous());
    return arrays;
  }

  /// The arrays under other names.
  template <class Rename>
  static Fields renamed(const Fields& arrays, Rename&& rename) {
    Fields found;
    for (const auto& [name, array] : arrays) found[rename(name)] = array;
    return found;
  }

  std::filesystem::path write(const Fields& arrays, const std::string& name = "file.safetensors") const {
    write_arrays(folder_ / name, arrays);
    return folder_ / name;
  }

  static void expect_equal(const Network& one, const Network& other) {
    const Fields left = arrays_of(one), right = arrays_of(other);
    for (const auto& [name, array] : left) EXPECT_TRUE(at::equal(to_tensor(array), to_tensor(right[name]))) << name;
  }

  const testing::TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(WeightsTest, AreFoundByTheNamesOfTheNetworkOrOfTorchvision) {
  const Network from = network(1);
  const Fields own = arrays_of(from);
  std::vector<std::string> names;
  for (const auto& [name, array] : own) names.push_back(name);
  const auto theirs = torchvision_names("resnet18", names);
  ASSERT_EQ(theirs.size(), 122U);
  for (const Fields& each : {own, renamed(own, [&](const std::string& name) { return theirs.at(name); }),
                             renamed(own, [&](const std::string& name) { return "module." + theirs.at(name); })}) {
    const Network into = network(2);
    const LoadedWeights loaded = load_weights(into, write(each), "resnet18");
    EXPECT_EQ(loaded.loaded, 122U);
    EXPECT_THAT(loaded.text(), HasSubstr("122 tensors are from " + (folder_ / "file.safetensors").string()));
    expect_equal(into, from);
  }
}

TEST_F(WeightsTest, AFileOfAnotherNumberOfClassesIsRefusedUnlessItMayBePartial) {
  const Network into = network(2, "resnet18", 3), before = network(2, "resnet18", 3);
  const std::filesystem::path file = write(arrays_of(network(1)));
  EXPECT_THAT(
      refusal([&] { load_weights(into, file, "resnet18"); }),
      AllOf(HasSubstr("of another shape are 2 (head.fc1.weight, head.fc1.bias)"), HasSubstr("model.strict=false")));
  expect_equal(into, before);
  const LoadedWeights loaded = load_weights(into, file, "resnet18", false);
  EXPECT_EQ(loaded.loaded, 120U);
  EXPECT_TRUE(at::equal(to_tensor(arrays_of(into)["stem.conv1.weight"]),
                        to_tensor(arrays_of(network(1))["stem.conv1.weight"])));
}

TEST_F(WeightsTest, WhatIsMissingAndWhatIsTooMuchIsNamed) {
  Fields arrays = renamed(arrays_of(network(1, "lenet")),
                          [](const std::string& name) { return name == "fc2.bias" ? "other" : name; });
  const std::filesystem::path file = write(arrays);
  EXPECT_THAT(refusal([&] { load_weights(network(2, "lenet"), file, "lenet"); }),
              AllOf(HasSubstr("it has not 1 (fc2.bias)"), HasSubstr("not used are 1 (other)")));
  EXPECT_EQ(load_weights(network(2, "lenet"), file, "lenet", false).loaded, 7U);
  EXPECT_THAT(refusal([&] {
                load_weights(network(2, "cifar"), write({{"x", arrays["other"]}}), "cifar", false);
              }),
              HasSubstr("it is of another network"));
}

TEST_F(WeightsTest, TheNumberOfBatchesMayBeMissing) {
  const Fields all = arrays_of(network(1));
  Fields some;
  for (const auto& [name, array] : all)
    if (!name.ends_with("num_batches_tracked")) some[name] = array;
  EXPECT_EQ(load_weights(network(2), write(some), "resnet18").loaded, 102U);
}

TEST_F(WeightsTest, ARunHasThoseOfItsBestCheckpointOrItsLast) {
  EXPECT_THAT(refusal([&] { weights_file(folder_); }), HasSubstr("has no network in it"));
  EXPECT_THAT(refusal([&] { weights_file(folder_ / "none"); }), HasSubstr("does not exist"));
  for (const char* each : {"checkpoints/last/model.safetensors", "checkpoints/best/model.safetensors",
                           "checkpoints/best/ema.safetensors"}) {
    std::filesystem::create_directories((folder_ / each).parent_path());
    EXPECT_EQ(weights_file(folder_), write(arrays_of(network(1, "lenet")), each));
  }
  std::ofstream(folder_ / "weights.pt") << "x";
  EXPECT_THAT(refusal([&] { load_weights(network(1, "lenet"), folder_ / "weights.pt"); }),
              HasSubstr("safetensors.torch.save_file"));
}

TEST_F(WeightsTest, NumbersAreConverted) {
  Network into = make_model({.name = "lenet", .input = {3, 32, 32}, .classes = 10, .seed = 2, .dtype = "float64"});
  load_weights(into, write(arrays_of(network(1, "lenet"))), "lenet");
  EXPECT_TRUE(at::equal(to_tensor(arrays_of(into)["fc1.weight"]),
                        to_tensor(arrays_of(network(1, "lenet"))["fc1.weight"]).to(at::kDouble)));
}

}  // namespace
}  // namespace tutti::engine
