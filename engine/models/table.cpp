// The table of models with their options. Without LibTorch.
#include "engine/config/tables.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

constexpr OptionInfo width{"width", Kind::number, "1", "what every layer's number of channels is multiplied by"};
constexpr OptionInfo hidden{"hidden", Kind::whole, "4096", "units of the two hidden dense layers", 1};
constexpr OptionInfo dropout(std::string_view value) {
  return {"dropout", Kind::number, value, "the part that is left out while training", 0, 1};
}
constexpr OptionInfo batchnorm(std::string_view value) {
  return {"batchnorm", Kind::flag, value, "normalise after each convolution, which then has no bias"};
}

constexpr OptionInfo mlp[] = {{"hidden", Kind::sizes, "128", "sizes of the hidden layers, comma-separated"}};
constexpr OptionInfo alexnet[] = {width, hidden, dropout("0.5")};
constexpr OptionInfo vgg[] = {width, hidden, dropout("0.5"), batchnorm("false")};
constexpr OptionInfo googlenet[] = {width, dropout("0.2"), batchnorm("true")};
constexpr OptionInfo resnet[] = {width};
constexpr OptionInfo gpt[] = {
    {"layers", Kind::whole, "6", "blocks of attention and dense layers", 1},
    {"heads", Kind::whole, "6", "of attention, in each block", 1},
    {"embedding", Kind::whole, "384", "numbers that a token becomes; a multiple of heads", 1},
    dropout("0"),
    {"tie", Kind::flag, "true", "one matrix for tokens at the beginning and scores at the end"},
};
constexpr OptionInfo sparse[] = {
    {"filters", Kind::sizes, "8,8", "filters of each layer, at every position their own"},
    {"kernel", Kind::whole, "3", "of filters, rows and columns", 1},
    {"pool", Kind::whole, "3", "of the roots of sums of squares, rows and columns", 1},
    {"stride", Kind::whole, "2", "of the pools", 1},
    {"contrast", Kind::whole, "3", "of local contrast normalisation, rows and columns", 1},
};

constexpr ChoiceInfo table[] = {
    {"mlp", "dense layers alone", mlp},
    {"lenet", "LeCun's two convolutions and two dense layers", {}},
    {"cifar", "Krizhevsky's quick three convolutions", {}},
    {"alexnet", "Krizhevsky's five convolutions, in one tower", alexnet},
    {"googlenet", "Szegedy's nine inception blocks, without the auxiliary outputs", googlenet},
    {"vgg16", "Simonyan's thirteen convolutions of 3x3", vgg},
    {"resnet18", "He's eight basic residual blocks", resnet},
    {"resnet50", "He's sixteen bottleneck residual blocks", resnet},
    {"sparse", "Le's layers of local filters, pools and contrast, which can learn without classes first", sparse},
    {"gpt", "a transformer that predicts the next token", gpt},
};

}  // namespace

std::span<const ChoiceInfo> model_table() noexcept { return table; }

}  // namespace tutti::engine
