// Layer: one layer of a chain, as a file or a model of the table specifies it. Plain data, without LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/config/options.hpp"
#include "engine/models/split.hpp"

namespace tutti::engine {

/// The shape of one sample, without the batch dimension: (channels, height, width), or (features).
using SampleShape = std::vector<std::int64_t>;

struct Layer {
  enum class Kind : std::uint8_t {
    conv,
    linear,
    batchnorm,
    maxpool,
    avgpool,
    gridpool,  ///< adaptive average pooling to at most `kernel` rows and columns
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
  std::int64_t size = 0;  ///< conv: filters; linear: units, or 0 for one per class
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0};
  std::int64_t groups = 1;
  bool bias = true;
  bool same = false;               ///< TensorFlow's padding "same": the output has input / stride rows, rounded up
  bool ceil = false;               ///< also count windows that extend beyond the edge, as PyTorch's ceil_mode
  double number = 0;               ///< dropout: probability; leakyrelu: slope; elu: alpha; batchnorm: epsilon
  double momentum = 0.1;           ///< batchnorm: weight of the new batch in the running statistics
  Split split = Split::automatic;  ///< how the layer is distributed over a mesh
  std::string place;               ///< where the layer is specified, for error messages
};

/// The layers that a file can name, with their options.
std::span<const ChoiceInfo> layer_table() noexcept;

/// The layer with this name. Errors start with `place`. Throws Error{invalid}.
Layer make_layer(const std::string& name, const Options::Given& options, const std::string& place);

struct LayerList {
  std::vector<Layer> layers;
  bool keras = false;
  SampleShape input;           ///< Keras: the input shape in the file; else empty
  bool channels_last = false;  ///< Keras: `input` is (rows, columns, channels)
};

/// Reads a chain of layers from a YAML or JSON file: a list such as
///
///   [{conv: {filters: 32, kernel: 3}}, {relu}, {maxpool: 2}, {dropout: .25}, {flatten}, {linear: classes}]
///
/// or Keras' JSON of a Sequential model (versions 1 to 3, without initialisers, regularisers and constraints). A final
/// softmax of a Keras model is dropped, because losses take scores. Throws Error{invalid} with the file, the layer and
/// its line.
LayerList read_layers(const std::filesystem::path& file);

/// The same for a text; `name` is its name in errors.
LayerList parse_layers(const std::string& text, const std::string& name);

}  // namespace tutti::engine
