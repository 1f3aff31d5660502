#include "engine/models/layers.hpp"

#include "engine/config/documents.hpp"
#include "engine/models/keras.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Kind = OptionInfo::Kind;

constexpr OptionInfo parallel{"parallel", Kind::text, "auto",
                              "on a mesh of ranks: auto, replicate, column, row or space"};

// The first option is the one that a plain value sets, as in {maxpool: 2}.
constexpr OptionInfo conv[] = {
    {"filters", Kind::whole, "0", "channels that come out", 1},
    {"kernel", Kind::sizes, "", "rows and columns, or one number for both"},
    {"stride", Kind::sizes, "1", "rows and columns"},
    {"padding", Kind::text, "0", "zeros around: a number, or same"},
    {"groups", Kind::whole, "1", "parts that the channels are divided into", 1},
    {"bias", Kind::flag, "true", "add a number to each channel"},
    parallel,
};
constexpr OptionInfo pool[] = {
    {"kernel", Kind::sizes, "", "rows and columns, or one number for both"},
    {"stride", Kind::sizes, "", "rows and columns; the kernel's unless given"},
    {"padding", Kind::text, "0", "a number, or same"},
    {"ceil", Kind::flag, "false", "count windows that reach beyond the edge"},
    parallel,
};
constexpr OptionInfo grid[] = {{"size", Kind::sizes, "1", "rows and columns that come out, unless fewer go in"}};
constexpr OptionInfo linear[] = {
    {"units", Kind::text, "", "numbers that come out, or `classes`"},
    {"bias", Kind::flag, "true", "add a number to each"},
    parallel,
};
constexpr OptionInfo batchnorm[] = {
    {"eps", Kind::number, "1e-5", "added to the variance"},
    {"momentum", Kind::number, "0.1", "the new part of running statistics"},
    parallel,
};
constexpr OptionInfo dropout[] = {{"rate", Kind::number, "0.5", "the part that is left out", 0, 1}};
constexpr OptionInfo leaky[] = {{"slope", Kind::number, "0.01", "below 0"}};
constexpr OptionInfo elu[] = {{"alpha", Kind::number, "1", "what it falls to is minus this"}};

constexpr ChoiceInfo table[] = {
    {"conv", "convolution of images", conv},
    {"linear", "dense layer", linear},
    {"batchnorm", "normalisation over the batch", batchnorm},
    {"maxpool", "largest of each window", pool},
    {"avgpool", "mean of each window", pool},
    {"gridpool", "means over a grid; of size 1, over the whole image", grid},
    {"dropout", "leave out at random while training", dropout},
    {"flatten", "one row of numbers", {}},
    {"relu", "", {}},
    {"leakyrelu", "", leaky},
    {"elu", "", elu},
    {"gelu", "", {}},
    {"tanh", "", {}},
    {"sigmoid", "", {}},
    {"softmax", "", {}},
};

Layer::Pair pair_of(const Options& options, std::string_view key) {
  const std::vector<std::int64_t> sizes = options.sizes(key);
  if (sizes.empty() || sizes.size() > 2)
    refuse(std::string(options.choice().name) + ": " + std::string(key) + " is one number or two, rows and columns");
  return {sizes.front(), sizes.back()};
}

/// Sets the padding from "same", or from one or two numbers.
void set_padding(Layer& layer, const Options& options) {
  const std::string& text = options.text("padding");
  layer.same = text == "same";
  if (layer.same || text == "0" || text == "valid") return;
  constexpr OptionInfo as_sizes[] = {{"padding", Kind::sizes, "", ""}};
  layer.padding = pair_of(Options({options.choice().name, "", as_sizes}, {{"padding", text}}), "padding");
}

std::int64_t units_of(const std::string& text) {
  if (text == "classes") return 0;
  constexpr OptionInfo as_number[] = {{"units", Kind::whole, "", "", 1}};
  if (text.empty()) refuse("linear: say how many units, or units=classes");
  return Options({"linear", "", as_number}, {{"units", text}}).whole("units");
}

void set_window(Layer& layer, const Options& options) {
  layer.kernel = pair_of(options, "kernel");
  layer.stride = options.sizes("stride").empty() ? layer.kernel : pair_of(options, "stride");
  set_padding(layer, options);
}

void set_conv(Layer& layer, const Options& options) {
  layer.size = options.whole("filters");
  if (layer.size == 0) refuse("conv: say how many filters");
  layer.groups = options.whole("groups");
  layer.bias = options.flag("bias");
  set_window(layer, options);
}

/// The text of a scalar or a list, as Options expects it.
std::string text_of(const YAML::Node& node, const std::string& place) {
  if (node.IsScalar()) return node.Scalar();
  std::string text;
  if (!node.IsSequence()) refuse(place + "expected a number, a word or a list of numbers");
  for (const auto& each : node) text += (text.empty() ? "" : ",") + text_of(each, place);
  return text;
}

Layer layer_of(const YAML::Node& node, const std::string& place) {
  if (node.IsScalar()) return make_layer(node.Scalar(), {}, place);
  if (!node.IsMap() || node.size() != 1) refuse(place + "expected one layer, as in {maxpool: 2}");
  const std::string name = node.begin()->first.as<std::string>();
  const YAML::Node value = node.begin()->second;
  Options::Given given;
  if (value.IsMap()) {
    for (const auto& entry : value) given[entry.first.as<std::string>()] = text_of(entry.second, place);
  } else if (!value.IsNull()) {
    std::string key;
    try {
      const ChoiceInfo& choice = choose("layer", table, name);
      if (choice.options.empty()) refuse(name + " has no options");
      key = choice.options.front().key;
    } catch (const Error& error) {
      refuse(place + error.what());
    }
    given[key] = text_of(value, place);
  }
  return make_layer(name, given, place);
}

}  // namespace

std::span<const ChoiceInfo> layer_table() noexcept { return table; }

Layer make_layer(const std::string& name, const Options::Given& options, const std::string& place) {
  try {
    const ChoiceInfo& choice = choose("layer", table, name);
    const Options checked(choice, options);
    Layer layer;
    layer.kind = static_cast<Layer::Kind>(&choice - table);  // the table is in the order of Kind
    layer.place = place;
    for (const OptionInfo& option : choice.options)
      if (option.key == parallel.key) layer.split = parse_split(checked.text(parallel.key));
    switch (layer.kind) {
      case Layer::Kind::conv: set_conv(layer, checked); break;
      case Layer::Kind::linear:
        layer.size = units_of(checked.text("units"));
        layer.bias = checked.flag("bias");
        break;
      case Layer::Kind::batchnorm:
        layer.number = checked.number("eps");
        layer.momentum = checked.number("momentum");
        break;
      case Layer::Kind::maxpool:
      case Layer::Kind::avgpool:
        set_window(layer, checked);
        layer.ceil = checked.flag("ceil");
        break;
      case Layer::Kind::gridpool: layer.kernel = pair_of(checked, "size"); break;
      case Layer::Kind::dropout: layer.number = checked.number("rate"); break;
      case Layer::Kind::leakyrelu: layer.number = checked.number("slope"); break;
      case Layer::Kind::elu: layer.number = checked.number("alpha"); break;
      default: break;
    }
    return layer;
  } catch (const Error& error) {
    refuse(place + error.what());
  }
}

LayerList parse_layers(const std::string& text, const std::string& name) {
  try {
    const YAML::Node root = parse_yaml(text, name);
    if (root.IsMap()) return keras_layers(root, name);
    if (!root.IsSequence() || root.size() == 0)
      refuse(name + ": expected a list of layers, or what Keras writes of a Sequential model");
    LayerList list;
    for (std::size_t i = 0; i < root.size(); ++i)
      list.layers.push_back(layer_of(
          root[i], name + ":" + std::to_string(root[i].Mark().line + 1) + ": layer " + std::to_string(i + 1) + ": "));
    return list;
  } catch (const YAML::Exception& error) {
    refuse(name + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg);
  }
}

LayerList read_layers(const std::filesystem::path& file) {
  return parse_layers(read_text(file, DocumentLimits().bytes), file.string());
}

}  // namespace tutti::engine
