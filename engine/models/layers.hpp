// Layer: one layer of a chain, as a file or a model of the table states it. Plain data, without LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/models/split.hpp"
#include "engine/options.hpp"

namespace tutti::engine {

/// The shape of one sample, without the batch: (channels, height, width), or (features).
using SampleShape = std::vector<std::int64_t>;

struct Layer {
  enum class Kind : std::uint8_t {
    conv,
    linear,
    batchnorm,
    maxpool,
    avgpool,
    gridpool,  ///< means over at most `kernel` parts of about equal size (an adaptive mean)
    dropout,
    flatten,
    relu,
    leakyrelu,
    elu,
    gelu,
    tanh,
    sigmoid,
    softmax,
  };
  using Pair = std::array<std::int64_t, 2>;  ///< rows, columns

  Kind kind = Kind::relu;
  std::int64_t size = 0;  ///< conv: filters; linear: units, where 0 is one for each class
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0};
  std::int64_t groups = 1;
  bool bias = true;
  bool same = false;      ///< padded so that the output has input / stride rows, rounded up, as TensorFlow does
  bool ceil = false;      ///< a window that reaches beyond the edge counts
  double number = 0;      ///< dropout: the part; leakyrelu: the slope; elu: alpha; batchnorm: epsilon
  double momentum = 0.1;  ///< batchnorm: of the running statistics, the part that is new
  Split split = Split::automatic;  ///< how it lies on a mesh
  std::string place;               ///< where it is stated, for errors
};

/// The layers that a file can name, with their options.
std::span<const ChoiceInfo> layer_table() noexcept;

/// The layer of that name. `place` begins the errors. Throws Error{invalid}.
Layer make_layer(const std::string& name, const Options::Given& options, const std::string& place);

struct LayerList {
  std::vector<Layer> layers;
  bool keras = false;
  SampleShape input;           ///< Keras: as the file states it; else empty
  bool channels_last = false;  ///< Keras: the stated input is (rows, columns, channels)
};

/// A file that states a chain of layers, in YAML or JSON: a list such as
///
///   [{conv: {filters: 32, kernel: 3}}, {relu}, {maxpool: 2}, {dropout: .25}, {flatten}, {linear: classes}]
///
/// or what Keras writes of a Sequential model (versions 1 to 3; initialisers, regularisers and constraints are not
/// read). There a softmax at the very end is left out, because training begins from the scores. Throws Error{invalid}
/// with the file, the layer and its line.
LayerList read_layers(const std::filesystem::path& file);

/// The same of a text; `name` is what errors call it.
LayerList parse_layers(const std::string& text, const std::string& name);

}  // namespace tutti::engine
