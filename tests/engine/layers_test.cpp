// Lists of layers in files: our own format and that of Keras, and the error texts for mistakes. The tables of models.
#include "engine/models/layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config/tables.hpp"
#include "tests/support/refusal.hpp"

namespace tutti::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal;
using Kind = Layer::Kind;

std::vector<Kind> kinds(const LayerList& list) {
  std::vector<Kind> kinds;
  for (const Layer& layer : list.layers) kinds.push_back(layer.kind);
  return kinds;
}

std::string parse_refusal(const std::string& text) {
  return refusal([&] { parse_layers(text, "net.yaml"); });
}

TEST(Layers, AreReadFromYaml) {
  const LayerList list = parse_layers(
      "[{conv: {filters: 32, kernel: 3}}, {relu}, {maxpool: 2}, {dropout: .25}, {flatten}, {linear: 128}, tanh,\n"
      " {linear: classes}]",
      "net.yaml");
  EXPECT_THAT(kinds(list), ElementsAre(Kind::conv, Kind::relu, Kind::maxpool, Kind::dropout, Kind::flatten,
                                       Kind::linear, Kind::tanh, Kind::linear));
  EXPECT_FALSE(list.keras);
  const auto& layers = list.layers;
  EXPECT_EQ(layers[0].size, 32);
  EXPECT_EQ(layers[0].kernel, (Layer::Pair{3, 3}));
  EXPECT_EQ(layers[0].stride, (Layer::Pair{1, 1}));
  EXPECT_TRUE(layers[0].bias);
  EXPECT_EQ(layers[2].kernel, (Layer::Pair{2, 2}));
  EXPECT_EQ(layers[2].stride, (Layer::Pair{2, 2}));
  EXPECT_EQ(layers[3].number, 0.25);
  EXPECT_EQ(layers[5].size, 128);
  EXPECT_EQ(layers[7].size, 0);
}

TEST(Layers, AreReadFromJsonAndBlocks) {
  const LayerList json = parse_layers(
      R"([{"conv": {"filters": 8, "kernel": [3, 5], "stride": 2, "padding": "same", "groups": 2, "bias": false}},
          {"batchnorm": {"eps": 1e-3, "momentum": 0.01}}, {"avgpool": {"kernel": 3, "stride": 2, "padding": 1, "ceil": true}},
          {"gridpool": 1}, "flatten", {"leakyrelu": 0.1}])",
      "net.json");
  const auto& layers = json.layers;
  EXPECT_EQ(layers[0].kernel, (Layer::Pair{3, 5}));
  EXPECT_EQ(layers[0].stride, (Layer::Pair{2, 2}));
  EXPECT_TRUE(layers[0].same);
  EXPECT_FALSE(layers[0].bias);
  EXPECT_EQ(layers[0].groups, 2);
  EXPECT_EQ(layers[1].number, 1e-3);
  EXPECT_EQ(layers[1].momentum, 0.01);
  EXPECT_EQ(layers[2].padding, (Layer::Pair{1, 1}));
  EXPECT_TRUE(layers[2].ceil);
  EXPECT_EQ(layers[3].kernel, (Layer::Pair{1, 1}));
  EXPECT_EQ(layers[5].number, 0.1);
  const LayerList yaml =
      parse_layers("- conv: {filters: 4, kernel: 3}\n- relu\n- maxpool:\n    kernel: 2\n", "net.yaml");
  EXPECT_THAT(kinds(yaml), ElementsAre(Kind::conv, Kind::relu, Kind::maxpool));
}

TEST(Layers, MistakesAreToldWithTheirPlace) {
  EXPECT_THAT(parse_refusal("- flatten\n- relu\n- linaer: 3\n"),
              AllOf(HasSubstr("net.yaml:3: layer 3: "), HasSubstr("no layer 'linaer'"), HasSubstr("'linear'")));
  EXPECT_THAT(parse_refusal("[{conv: {filter: 3, kernel: 3}}]"), AllOf(HasSubstr("layer 1"), HasSubstr("'filters'")));
  EXPECT_THAT(parse_refusal("[{conv: {filters: 3}}]"), HasSubstr("kernel is one number or two"));
  EXPECT_THAT(parse_refusal("[{conv: {kernel: 3}}]"), HasSubstr("say how many filters"));
  EXPECT_THAT(parse_refusal("[{conv: {filters: 3, kernel: 0}}]"), HasSubstr("from 1 up"));
  EXPECT_THAT(parse_refusal("[{conv: {filters: 3, kernel: [1, 2, 3]}}]"), HasSubstr("rows and columns"));
  EXPECT_THAT(parse_refusal("[{conv: {filters: 3, kernel: 3, padding: some}}]"), HasSubstr("padding=some"));
  EXPECT_THAT(parse_refusal("[{linear: many}]"), HasSubstr("units=many"));
  EXPECT_THAT(parse_refusal("[{linear: {}}]"), HasSubstr("units=classes"));
  EXPECT_THAT(parse_refusal("[{dropout: 1}]"), HasSubstr("below 1"));
  EXPECT_THAT(parse_refusal("[{relu: 3}]"), HasSubstr("relu has no options"));
  EXPECT_THAT(parse_refusal("[{relu: 3"), HasSubstr("net.yaml:1: "));
  EXPECT_THAT(parse_refusal("[{relu, tanh}]"), HasSubstr("expected one layer"));
  EXPECT_THAT(parse_refusal("[]"), HasSubstr("expected a list of layers"));
  EXPECT_THAT(parse_refusal("[{conv: {filters: {a: 1}}}]"), HasSubstr("expected a number"));
  EXPECT_THAT(refusal([] { read_layers("nowhere.yaml"); }), HasSubstr("nowhere.yaml: cannot be read"));
}

// The MNIST network of mpi_learn's example, as Keras 2 writes it.
constexpr const char* keras2 = R"({"class_name": "Sequential", "keras_version": "2.1.3", "backend": "tensorflow",
 "config": [
  {"class_name": "Conv2D", "config": {"name": "conv2d_1", "trainable": true, "batch_input_shape": [null, 28, 28, 1],
   "dtype": "float32", "filters": 32, "kernel_size": [3, 3], "strides": [1, 1], "padding": "valid",
   "data_format": "channels_last", "dilation_rate": [1, 1], "activation": "relu", "use_bias": true,
   "kernel_initializer": {"class_name": "VarianceScaling", "config": {"scale": 1.0, "seed": null}}, "kernel_regularizer": null}},
  {"class_name": "Conv2D", "config": {"filters": 32, "kernel_size": [3, 3], "strides": [1, 1], "padding": "same",
   "data_format": "channels_last", "activation": "linear", "use_bias": false}},
  {"class_name": "BatchNormalization", "config": {"axis": -1, "momentum": 0.99, "epsilon": 0.001}},
  {"class_name": "Activation", "config": {"activation": "elu"}},
  {"class_name": "MaxPooling2D", "config": {"pool_size": [2, 2], "padding": "valid", "strides": [2, 2]}},
  {"class_name": "Dropout", "config": {"rate": 0.25, "noise_shape": null}},
  {"class_name": "Flatten", "config": {"name": "flatten_1"}},
  {"class_name": "Dense", "config": {"units": 128, "activation": "relu", "use_bias": true}},
  {"class_name": "Dense", "config": {"units": 10, "activation": "softmax", "use_bias": true}}]})";

TEST(Keras, SequentialModelsAreRead) {
  const LayerList list = parse_layers(keras2, "mnist.json");
  EXPECT_TRUE(list.keras);
  EXPECT_TRUE(list.channels_last);
  EXPECT_THAT(list.input, ElementsAre(28, 28, 1));
  EXPECT_THAT(kinds(list), ElementsAre(Kind::conv, Kind::relu, Kind::conv, Kind::batchnorm, Kind::elu, Kind::maxpool,
                                       Kind::dropout, Kind::flatten, Kind::linear, Kind::relu, Kind::linear))
      << "without the softmax at the end";
  EXPECT_EQ(list.layers[0].size, 32);
  EXPECT_FALSE(list.layers[0].same);
  EXPECT_TRUE(list.layers[2].same);
  EXPECT_FALSE(list.layers[2].bias);
  EXPECT_NEAR(list.layers[3].momentum, 0.01, 1e-15);
  EXPECT_EQ(list.layers[3].number, 0.001);
  EXPECT_EQ(list.layers[6].number, 0.25);
  EXPECT_EQ(list.layers.back().size, 10);
}

TEST(Keras, OfVersionsOneAndThreeToo) {
  const LayerList one = parse_layers(
      R"({"class_name": "Sequential", "config": [
        {"class_name": "Convolution2D", "config": {"batch_input_shape": [null, 1, 8, 8], "nb_filter": 4, "nb_row": 3,
         "nb_col": 5, "border_mode": "same", "subsample": [1, 1], "dim_ordering": "th", "bias": true, "activation": "relu"}},
        {"class_name": "MaxPooling2D", "config": {"pool_size": [2, 2], "strides": null, "border_mode": "valid"}},
        {"class_name": "Dropout", "config": {"p": 0.3}}, {"class_name": "Flatten", "config": {}},
        {"class_name": "Dense", "config": {"output_dim": 3, "activation": "linear"}}]})",
      "one.json");
  EXPECT_FALSE(one.channels_last);
  EXPECT_THAT(one.input, ElementsAre(1, 8, 8));
  EXPECT_EQ(one.layers[0].kernel, (Layer::Pair{3, 5}));
  EXPECT_EQ(one.layers[2].stride, (Layer::Pair{2, 2}));
  EXPECT_EQ(one.layers[3].number, 0.3);
  EXPECT_EQ(one.layers.back().size, 3);
  const LayerList three = parse_layers(
      R"({"class_name": "Sequential", "config": {"name": "sequential", "layers": [
        {"module": "keras.layers", "class_name": "InputLayer", "config": {"batch_shape": [null, 8, 8, 3]}},
        {"module": "keras.layers", "class_name": "GlobalAveragePooling2D", "config": {"data_format": "channels_last"}},
        {"module": "keras.layers", "class_name": "Dense", "config": {"units": 5, "activation": "linear"}}]}})",
      "three.json");
  EXPECT_THAT(three.input, ElementsAre(8, 8, 3));
  EXPECT_THAT(kinds(three), ElementsAre(Kind::gridpool, Kind::flatten, Kind::linear));
}

TEST(Keras, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(parse_refusal(R"({"class_name": "Model", "config": {}})"),
              AllOf(HasSubstr("'Model'"), HasSubstr("Sequential")));
  EXPECT_THAT(parse_refusal("{a: 1}"), HasSubstr("no class_name"));
  EXPECT_THAT(parse_refusal(R"({"class_name": "Sequential", "config": []})"), HasSubstr("no layers"));
  EXPECT_THAT(
      parse_refusal(R"({"class_name": "Sequential", "config": [{"class_name": "Flatten"}, {"class_name": "Conv3D"}]})"),
      AllOf(HasSubstr("net.yaml:1: layer 2: no Keras layer 'Conv3D'"), HasSubstr("'Conv2D'")));
  EXPECT_THAT(parse_refusal(R"({"class_name": "Sequential", "config": [
                 {"class_name": "Dense", "config": {"units": 3, "activation": "relo"}}]})"),
              HasSubstr("'relu'"));
  EXPECT_THAT(parse_refusal(R"({"class_name": "Sequential", "config": [
                 {"class_name": "Conv2D", "config": {"filters": 3, "kernel_size": [3, 3], "dilation_rate": [2, 2]}}]})"),
              HasSubstr("dilation_rate=2,2"));
}

TEST(Layers, ATextCountsWhereverAnAliasStandsForIt) {
  std::string text = "- conv: {kernel: [&a " + std::string(1 << 19, '1');
  for (int i = 0; i < 32; ++i) text += ", *a";
  EXPECT_THAT(parse_refusal(text + "]}\n"), HasSubstr("net.yaml:1: has more than 16777216 bytes where its aliases"));
}

TEST(Tables, StateValuesOfTheirKinds) {
  for (const auto table : {model_table(), optimizer_table()})
    for (const ChoiceInfo& choice : table) {
      Options::Given all;
      for (const OptionInfo& option : choice.options) {
        EXPECT_FALSE(option.meaning.empty());
        all.emplace(option.key, option.value);
      }
      EXPECT_NO_THROW(Options(choice, all)) << choice.name;
    }
}

}  // namespace
}  // namespace tutti::engine
