// Models: parameter counts of the full models as in the literature, small models forward and backward, seeds, files of
// layers, TorchScript.
#include "engine/models/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <fstream>

#include "engine/optimizers/optimizer.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;

std::int64_t count(const Network& network) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors_of(network).parameters) count += tensor.numel();
  return count;
}

std::int64_t full_size(const std::string& name, const Options::Given& options = {}, std::int64_t side = 224) {
  return count(make_model({.name = name, .input = {3, side, side}, .classes = 1000, .options = options}));
}

// torchvision's numbers, and for GoogLeNet those of Caffe's bvlc_googlenet without its auxiliary outputs.
TEST(Models, OfFullSizeHaveTheParametersOfTheLiterature) {
  EXPECT_EQ(full_size("alexnet"), 61100840);
  EXPECT_EQ(full_size("alexnet", {}, 227), 61100840);
  EXPECT_EQ(full_size("vgg16"), 138357544);
  EXPECT_EQ(full_size("resnet18"), 11689512);
  EXPECT_EQ(full_size("resnet50"), 25557032);
  EXPECT_EQ(full_size("googlenet", {{"batchnorm", "false"}}), 6998552);
  EXPECT_EQ(full_size("googlenet"), 6998552 + 7280) << "two for each of 7280 channels in place of a bias";
  EXPECT_EQ(count(make_model({.name = "cifar", .input = {3, 32, 32}})), 145578);
  EXPECT_EQ(count(make_model({.name = "lenet", .input = {1, 28, 28}})), 431080);
  EXPECT_EQ(count(make_model({.name = "gpt",
                              .input = {1024},
                              .classes = 50257,
                              .options = {{"layers", "12"}, {"heads", "12"}, {"embedding", "768"}}})),
            124439808);
}

/// Every model in a small size.
const std::vector<ModelSettings> small_models = [] {
  std::vector<ModelSettings> all{
      {.name = "mlp", .input = {1, 6, 6}, .options = {{"hidden", "12,8"}}},
      {.name = "mlp", .input = {7}, .options = {{"hidden", ""}}},
      {.name = "lenet", .input = {1, 28, 28}},
      {.name = "lenet", .input = {3, 8, 9}},
      {.name = "cifar", .input = {3, 32, 32}},
      {.name = "alexnet", .input = {3, 32, 32}, .options = {{"width", "0.1"}, {"hidden", "16"}, {"dropout", "0"}}},
      {.name = "alexnet", .input = {3, 67, 63}, .options = {{"width", "0.1"}, {"hidden", "16"}}},
      {.name = "alexnet", .input = {1, 5, 9}, .options = {{"width", "0.1"}, {"hidden", "16"}}},
      {.name = "vgg16", .input = {1, 28, 28}, .options = {{"width", "0.1"}, {"hidden", "16"}}},
      {.name = "googlenet", .input = {3, 16, 16}, .options = {{"width", "0.1"}}},
      {.name = "googlenet", .input = {3, 64, 70}, .options = {{"width", "0.05"}, {"batchnorm", "false"}}},
      {.name = "vgg16", .input = {3, 32, 32}, .options = {{"width", "0.1"}, {"hidden", "16"}, {"dropout", "0"}}},
      {.name = "vgg16", .input = {1, 40, 33}, .options = {{"width", "0.1"}, {"hidden", "16"}, {"batchnorm", "true"}}},
      {.name = "resnet18", .input = {3, 32, 32}, .options = {{"width", "0.1"}}},
      {.name = "resnet18", .input = {3, 64, 65}, .options = {{"width", "0.1"}}},
      {.name = "resnet50", .input = {3, 16, 16}, .options = {{"width", "0.1"}}},
      {.name = "gpt", .input = {9}, .classes = 13, .options = {{"layers", "2"}, {"heads", "2"}, {"embedding", "8"}}},
      {.name = "gpt",
       .input = {9},
       .classes = 13,
       .options = {{"layers", "1"}, {"heads", "4"}, {"embedding", "8"}, {"tie", "false"}, {"dropout", "0.1"}}},
  };
  for (ModelSettings& each : all) each.dtype = "float64";
  return all;
}();

at::Tensor batch_of(const ModelSettings& settings, std::int64_t samples = 4) {
  std::vector<std::int64_t> sizes = settings.input;
  sizes.insert(sizes.begin(), samples);
  torch::manual_seed(5);
  return settings.name == "gpt" ? torch::randint(settings.classes, sizes, torch::kLong)
                                : torch::randn(sizes, torch::kDouble);
}

TEST(Models, GoForwardAndBackward) {
  for (const ModelSettings& settings : small_models) {
    const Network network = make_model(settings);
    set_training(network, true);
    const at::Tensor batch = batch_of(settings);
    const at::Tensor scores = network.forward(batch);
    EXPECT_EQ(scores.scalar_type(), torch::kDouble);
    std::vector<std::int64_t> expected{4, settings.classes};
    if (settings.name == "gpt") expected = {4, 9, settings.classes};
    EXPECT_EQ(scores.sizes(), at::IntArrayRef(expected)) << settings.name;
    scores.pow(2).sum().backward();
    for (const auto& [name, tensor] : tensors_of(network).parameters) {
      ASSERT_TRUE(tensor.grad().defined()) << settings.name << " " << name;
      EXPECT_TRUE(tensor.grad().isfinite().all().item<bool>()) << settings.name << " " << name;
      EXPECT_EQ(tensor.scalar_type(), torch::kDouble);
    }
  }
}

TEST(Models, BeginNearChance) {
  auto all = small_models;
  all.push_back({.name = "googlenet", .input = {3, 64, 64}, .options = {{"batchnorm", "false"}}, .dtype = "float64"});
  for (ModelSettings& settings : all)
    for (settings.seed = 1; settings.seed < 4; ++settings.seed) {
      const at::Tensor scores = make_model(settings).forward(batch_of(settings)).flatten(0, -2);
      const at::Tensor labels = torch::randint(settings.classes, {scores.size(0)}, torch::kLong);
      EXPECT_LT(torch::nn::functional::cross_entropy(scores, labels).item<double>(), 3 * std::log(settings.classes));
    }
}

TEST(Models, AreTheSameFromTheSameSeed) {
  for (ModelSettings settings : small_models) {
    const NetworkTensors one = tensors_of(make_model(settings));
    torch::rand({3});  // other random numbers must not change the model
    const NetworkTensors two = tensors_of(make_model(settings));
    settings.seed = 2;
    const NetworkTensors other = tensors_of(make_model(settings));
    bool differs = false;
    for (std::size_t i = 0; i < one.parameters.size(); ++i) {
      EXPECT_EQ(one.parameters[i].first, two.parameters[i].first);
      EXPECT_TRUE(one.parameters[i].second.equal(two.parameters[i].second)) << settings.name;
      differs = differs || !one.parameters[i].second.equal(other.parameters[i].second);
    }
    EXPECT_TRUE(differs) << settings.name;
  }
}

TEST(Models, LearnAFewSamplesByHeart) {
  for (const std::size_t which : {2, 4, 5, 9, 15, 16}) {
    const ModelSettings& settings = small_models[which];
    const Network network = make_model(settings);
    set_training(network, true);
    const at::Tensor batch = batch_of(settings), target = torch::arange(4, torch::kLong);
    const auto loss = [&] {
      const at::Tensor scores = network.forward(batch);
      return torch::nn::functional::cross_entropy(scores.dim() == 3 ? scores.select(1, -1) : scores, target);
    };
    const auto optimizer = make_optimizer("adam", {{.parameters = tensors_of(network).parameters}}, {{"lr", "0.003"}});
    const double before = loss().item<double>();
    for (int step = 0; step < 60; ++step) {
      for (const auto& [name, tensor] : tensors_of(network).parameters) tensor.mutable_grad().reset();
      loss().backward();
      optimizer->step();
    }
    EXPECT_LT(loss().item<double>(), before / 2) << settings.name;
  }
}

TEST(Models, HaveBiasesAndNormalisationsThatGroupsFind) {
  for (const ModelSettings& settings : small_models)
    for (const ParameterGroup& group :
         group_parameters(tensors_of(make_model(settings)).parameters, {.decay_bias = false, .decay_norm = false}))
      for (const auto& [name, tensor] : group.parameters)
        EXPECT_EQ(group.decay_factor, tensor.dim() > 1 ? 1 : 0) << settings.name << " " << name;
}

TEST(Models, DropOutOnlyWhileTraining) {
  const ModelSettings settings{
      .name = "alexnet", .input = {3, 32, 32}, .options = {{"width", "0.1"}, {"hidden", "64"}}};
  const Network network = make_model(settings);
  const at::Tensor batch = torch::randn({2, 3, 32, 32});
  set_training(network, true);
  EXPECT_FALSE(network.forward(batch).equal(network.forward(batch)));
  set_training(network, false);
  EXPECT_TRUE(network.forward(batch).equal(network.forward(batch)));
}

TEST(Models, GptDoesNotSeeWhatComesLater) {
  const ModelSettings& settings = small_models[16];
  const Network network = make_model(settings);
  set_training(network, false);
  const at::Tensor tokens = batch_of(settings);
  at::Tensor changed = tokens.clone();
  changed.select(1, 6).fill_(0);
  changed.select(1, 6).add_(tokens.select(1, 6).eq(0));
  const at::Tensor one = network.forward(tokens), two = network.forward(changed);
  EXPECT_TRUE(torch::allclose(one.narrow(1, 0, 6), two.narrow(1, 0, 6), 0, 1e-14));
  EXPECT_FALSE(torch::allclose(one.narrow(1, 6, 3), two.narrow(1, 6, 3)));
  EXPECT_TRUE(torch::allclose(network.forward(tokens.narrow(1, 0, 4)), one.narrow(1, 0, 4), 0, 1e-14))
      << "shorter samples are welcome";
  EXPECT_THAT(refusal([&] { network.forward(torch::zeros({1, 10}, torch::kLong)); }), HasSubstr("10 tokens"));
}

/// LeNet written by hand; its weights are drawn in the same order.
struct HandWritten {
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 20, 5)}, conv2{torch::nn::Conv2dOptions(20, 50, 5)};
  torch::nn::Linear fc1{800, 500}, fc2{500, 10};
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::max_pool2d(torch::relu(conv1->forward(images)), 2);
    x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2);
    return fc2->forward(torch::relu(fc1->forward(x.flatten(1))));
  }
};

class ModelFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + name) << text;
    return folder_ + name;
  }
  const testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() + "/";
};

TEST_F(ModelFiles, ALayerListIsTheHandWrittenLenet) {
  const std::string file = write("lenet.yaml", R"(
- conv: {filters: 20, kernel: 5}
- relu
- maxpool: 2
- conv: {filters: 50, kernel: 5}
- relu
- maxpool: 2
- flatten
- linear: 500
- relu
- linear: classes
)");
  const at::Tensor images = torch::randn({3, 1, 28, 28});
  torch::manual_seed(3);
  const at::Tensor expected = HandWritten().forward(images);
  for (const std::string& name : {std::string("lenet"), file})
    EXPECT_TRUE(make_model({.name = name, .input = {1, 28, 28}, .seed = 3}).forward(images).equal(expected)) << name;
  const NetworkTensors tensors = tensors_of(make_model({.name = file, .input = {1, 28, 28}}));
  EXPECT_EQ(tensors.parameters[0].first, "conv1.weight");
  EXPECT_EQ(tensors.parameters.back().first, "fc2.bias");
}

TEST_F(ModelFiles, LayersDoWhatTheySay) {
  const std::string file = write("all.yaml", R"(
- conv: {filters: 4, kernel: [3, 2], stride: 2, padding: same, groups: 2}
- batchnorm
- leakyrelu: 0.2
- maxpool: {kernel: 2, stride: 2, padding: same}
- elu
- conv: {filters: 6, kernel: 1, bias: false}
- avgpool: {kernel: 3, stride: 1, padding: same}
- gelu
- gridpool: 2
- sigmoid
- flatten
- linear: {units: 8, bias: false}
- batchnorm
- tanh
- dropout: 0.5
- linear: 3
- softmax
)");
  const Network network = make_model({.name = file, .input = {2, 9, 11}, .classes = 3, .dtype = "float64"});
  set_training(network, false);
  const at::Tensor out = network.forward(torch::randn({5, 2, 9, 11}, torch::kDouble));
  EXPECT_TRUE(torch::allclose(out.sum(1), torch::ones({5}, torch::kDouble)));
  EXPECT_EQ(tensors_of(network).buffers.size(), 6U);
  // TensorFlow pads the odd row at the end: with 4 values, a window of 3 and stride 2, windows begin at 0 and 2.
  const Network same =
      make_model({.name = write("same.yaml", "[{maxpool: {kernel: 3, stride: 2, padding: same}}, {flatten}]"),
                  .input = {1, 1, 4},
                  .classes = 2});
  EXPECT_TRUE(same.forward(torch::tensor({9.F, 1.F, 2.F, 3.F}).view({1, 1, 1, 4})).equal(torch::tensor({{9.F, 3.F}})));
}

TEST_F(ModelFiles, LayersThatDoNotFitAreNamed) {
  const auto with = [&](const std::string& layers, const SampleShape& input = {1, 8, 8}) {
    return refusal([&] { make_model({.name = write("net.yaml", layers), .input = input}); });
  };
  EXPECT_THAT(with("- relu\n- conv: {filters: 2, kernel: 9}\n"),
              AllOf(HasSubstr("net.yaml:2: layer 2: conv of 9x9 does not fit into 8x8")));
  EXPECT_THAT(with("[{linear: 10}]"), HasSubstr("put flatten before it"));
  EXPECT_THAT(with("[{flatten}, {maxpool: 2}]"), HasSubstr("put it before flatten"));
  EXPECT_THAT(with("[{flatten}, {linear: 9}]"), HasSubstr("end with {linear: classes}"));
  EXPECT_THAT(with("[{conv: {filters: 4, kernel: 1, groups: 2}}]"), HasSubstr("groups=2 must divide"));
  EXPECT_THAT(with("[{maxpool: {kernel: 2, padding: 2}}]"), HasSubstr("half the kernel"));
  EXPECT_THAT(with("[{avgpool: {kernel: 2, stride: 1, padding: same}}]"), HasSubstr("choose another"));
}

constexpr const char* keras = R"({"class_name": "Sequential", "config": [
  {"class_name": "Conv2D", "config": {"batch_input_shape": [null, 8, 6, 3], "filters": 4, "kernel_size": [3, 3],
   "padding": "same", "data_format": "channels_last", "activation": "relu"}},
  {"class_name": "Flatten", "config": {}},
  {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]})";

TEST_F(ModelFiles, KerasImagesMayHaveTheirChannelsLast) {
  const std::string file = write("keras.json", keras);
  const Network last = make_model({.name = file, .input = {8, 6, 3}});
  const Network first = make_model({.name = file, .input = {3, 8, 6}});
  const at::Tensor images = torch::randn({2, 3, 8, 6});
  EXPECT_TRUE(first.forward(images).equal(last.forward(images.permute({0, 2, 3, 1}).contiguous())));
  EXPECT_EQ(tensors_of(first).parameters[1].second.abs().max().item<float>(), 0) << "biases begin at 0";
  EXPECT_THAT(refusal([&] { make_model({.name = file, .input = {3, 8, 8}}); }), HasSubstr("another shape"));
  EXPECT_THAT(refusal([&] { make_model({.name = file, .input = {3, 8, 6}, .classes = 7}); }), HasSubstr("Dense"));
  const std::string dense = write("dense.json", R"({"class_name": "Sequential", "config": [
      {"class_name": "Dense", "config": {"batch_input_shape": [null, 144], "units": 10, "activation": "linear"}}]})");
  EXPECT_EQ(make_model({.name = dense, .input = {3, 8, 6}}).forward(images).size(1), 10);
}

TEST_F(ModelFiles, TorchScriptIsTrained) {
  const std::string file = folder_ + "net.pt";
  {
    torch::jit::Module below("Below"), script("Net");
    torch::manual_seed(1);
    below.register_parameter("weight", torch::randn({3, 4}), false);
    below.register_parameter("frozen", torch::ones({3}), false);
    below.register_buffer("seen", torch::zeros({1}));
    below.define(R"(
def forward(self, x):
    self.seen.add_(1)
    return torch.matmul(x, self.weight.t()) + self.frozen
)");
    below.attr("weight").toTensor().set_requires_grad(true);
    script.register_module("below", below);
    script.register_attribute("training", c10::BoolType::get(), true);
    script.define(R"(
def forward(self, x):
    y = self.below.forward(x)
    if self.training:
        y = y * 2
    return y
)");
    script.save(file);
  }
  const Network network = make_model({.name = file, .input = {4}, .classes = 3, .dtype = "float64"});
  const NetworkTensors tensors = tensors_of(network);
  ASSERT_EQ(tensors.parameters.size(), 2U);
  EXPECT_EQ(tensors.parameters[0].first, "below.weight");
  EXPECT_EQ(tensors.parameters[1].first, "below.frozen");
  EXPECT_FALSE(tensors.parameters[1].second.requires_grad());
  ASSERT_EQ(tensors.buffers.size(), 1U);
  EXPECT_EQ(tensors.buffers[0].first, "below.seen");
  const at::Tensor weight = tensors.parameters[0].second, batch = torch::ones({2, 4}, torch::kDouble);
  EXPECT_EQ(weight.scalar_type(), torch::kDouble);

  set_training(network, false);
  const at::Tensor plain = network.forward(batch).detach();
  EXPECT_TRUE(torch::allclose(plain[0], weight.detach().sum(1) + 1));
  set_training(network, true);
  const at::Tensor doubled = network.forward(batch);
  EXPECT_TRUE(torch::allclose(doubled.detach(), 2 * plain));
  EXPECT_EQ(tensors.buffers[0].second.item<double>(), 2) << "the script's own buffer";
  doubled.sum().backward();
  EXPECT_TRUE(torch::allclose(weight.grad(), torch::full_like(weight.grad(), 4)));
  {
    const at::NoGradGuard no_grad;
    weight.sub_(0.25 * weight.grad());
  }
  EXPECT_TRUE(torch::allclose(network.forward(batch).detach()[0], 2 * plain[0] - 8))
      << "it computes with what was trained";
}

TEST_F(ModelFiles, WhatIsNoScriptIsRefused) {
  const std::string file = write("net.pt", "nothing of the kind");
  EXPECT_THAT(refusal([&] { make_model({.name = file, .input = {4}}); }), HasSubstr("torch.jit.save"));
  torch::jit::Module frozen("Frozen");
  frozen.register_parameter("weight", torch::ones({1}), false);
  frozen.define("def forward(self, x):\n    return x * self.weight\n");
  frozen.save(folder_ + "frozen.pt");
  EXPECT_THAT(refusal([&] { make_model({.name = folder_ + "frozen.pt", .input = {4}}); }),
              HasSubstr("requires a gradient"));
  EXPECT_THAT(refusal([&] { make_model({.name = "absent.pt", .input = {4}}); }), HasSubstr("absent.pt"));
  EXPECT_THAT(refusal([&] {
                make_model({.name = file, .input = {4}, .options = {{"hidden", "3"}}});
              }),
              HasSubstr("'hidden'"));
}

TEST(Models, RefusalsSayWhatThereIs) {
  const auto with = [](const ModelSettings& settings) { return refusal([&] { make_model(settings); }); };
  EXPECT_THAT(with({.name = "resnet19", .input = {3, 8, 8}}), AllOf(HasSubstr("'resnet19'"), HasSubstr("'resnet18'")));
  EXPECT_THAT(with({.name = "resnet18", .input = {3, 8, 8}, .options = {{"widht", "2"}}}), HasSubstr("'width'"));
  EXPECT_THAT(with({.name = "cifar", .input = {3, 2, 2}}),
              HasSubstr("model=cifar: avgpool of 3x3 does not fit into 1x1"));
  EXPECT_THAT(with({.name = "lenet", .input = {64}}), HasSubstr("channels, rows and columns"));
  EXPECT_THAT(with({.name = "gpt", .input = {3, 8, 8}}), HasSubstr("tokens"));
  EXPECT_THAT(with({.name = "gpt", .input = {8}, .options = {{"heads", "7"}}}), HasSubstr("multiple of heads=7"));
  EXPECT_THAT(with({.name = "lenet", .input = {1, 8, 8}, .dtype = "int8"}), HasSubstr("float32 or float64"));
  EXPECT_THAT(with({.name = "lenet", .input = {1, 8, 0}}), HasSubstr("from 1 up"));
}

TEST(Networks, MayDoWithoutAModule) {
  const at::Tensor weight = torch::ones({2});
  bool training = false;
  Network network{.module = nullptr, .forward = [=](const at::Tensor& x) { return x * weight; }};
  EXPECT_THAT(refusal([&] { tensors_of(network); }), HasSubstr("Network::tensors"));
  network.tensors = std::make_shared<NetworkTensors>(NetworkTensors{{{"weight", weight}}, {}});
  network.set_training = [&](bool on) { training = on; };
  EXPECT_EQ(tensors_of(network).parameters[0].first, "weight");
  set_training(network, true);
  EXPECT_TRUE(training);
}

}  // namespace
}  // namespace tutti::engine
