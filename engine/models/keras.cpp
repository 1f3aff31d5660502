// Each property is looked up by its key in Keras 2 and 3 first, then by that in Keras 1.
#include "engine/models/keras.hpp"

#include <algorithm>
#include <initializer_list>

#include "engine/config/options.hpp"

namespace tutti::engine {
namespace {

/// The config of one layer.
class Entry {
 public:
  Entry(const YAML::Node& config, std::string place)
      : config_(config.IsDefined() ? config : YAML::Node(YAML::NodeType::Map)), place_(std::move(place)) {}

  const std::string& place() const noexcept { return place_; }

  /// The first of the keys that is present and not null, as text; the numbers of a list are joined by commas.
  std::string text(std::initializer_list<const char*> keys, const std::string& otherwise = {}) const {
    for (const char* key : keys)
      if (const YAML::Node node = at(key)) return as_text(node);
    return otherwise;
  }
  SampleShape shape(std::initializer_list<const char*> keys) const {
    SampleShape shape;
    for (const char* key : keys)
      if (const YAML::Node node = at(key)) {
        for (std::size_t i = 1; i < node.size(); ++i) shape.push_back(node[i].as<std::int64_t>());
        break;
      }
    return shape;
  }

 private:
  YAML::Node at(const char* key) const {
    const YAML::Node node = config_[key];
    return node && !node.IsNull() ? node : YAML::Node(YAML::NodeType::Undefined);
  }
  std::string as_text(const YAML::Node& node) const {
    if (node.IsScalar()) return node.Scalar();
    if (node.IsMap() && node["class_name"]) return node["class_name"].as<std::string>();
    if (!node.IsSequence()) refuse(place_ + "expected a value, not a map");
    std::string text;
    for (const auto& each : node) text += (text.empty() ? "" : ",") + as_text(each);
    return text;
  }

  const YAML::Node config_;
  const std::string place_;
};

class Reader {
 public:
  LayerList read(const YAML::Node& layers, const std::string& name) {
    list_.keras = true;
    list_.channels_last = true;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const YAML::Node node = layers[i];
      const std::string kind = node["class_name"] ? node["class_name"].as<std::string>() : "";
      const Entry entry(node["config"],
                        name + ":" + std::to_string(node.Mark().line + 1) + ": layer " + std::to_string(i + 1) + ": ");
      if (const SampleShape shape = entry.shape({"batch_input_shape", "batch_shape"}); !shape.empty())
        list_.input = shape;
      const std::string order = entry.text({"data_format", "dim_ordering"});
      if (order == "channels_first" || order == "th") list_.channels_last = false;
      add(kind, entry);
    }
    if (!list_.layers.empty() && list_.layers.back().kind == Layer::Kind::softmax) list_.layers.pop_back();
    return std::move(list_);
  }

 private:
  using Given = Options::Given;
  struct Known {
    std::string_view name;
    void (Reader::*read)(const Entry&);
  };

  static std::span<const Known> known() {
    static constexpr Known table[] = {
        {"InputLayer", &Reader::nothing},
        {"Conv2D", &Reader::conv},
        {"Convolution2D", &Reader::conv},
        {"MaxPooling2D", &Reader::max_pool},
        {"AveragePooling2D", &Reader::mean_pool},
        {"GlobalAveragePooling2D", &Reader::global_pool},
        {"Dense", &Reader::dense},
        {"Dropout", &Reader::dropout},
        {"Flatten", &Reader::flatten},
        {"Activation", &Reader::activation},
        {"BatchNormalization", &Reader::batchnorm},
        {"ReLU", &Reader::relu},
        {"LeakyReLU", &Reader::leaky},
        {"ELU", &Reader::elu},
        {"Softmax", &Reader::softmax},
    };
    return table;
  }

  void add(const std::string& kind, const Entry& entry) {
    const auto found = std::ranges::find(known(), std::string_view(kind), &Known::name);
    if (found != known().end()) return (this->*found->read)(entry);
    std::vector<std::string_view> names;
    for (const Known& each : known()) names.push_back(each.name);
    refuse(entry.place() + "no Keras layer '" + kind + "'" + nearest_of(kind, names));
  }

  void push(const char* name, const Entry& entry, const Given& given = {}) {
    list_.layers.push_back(make_layer(name, given, entry.place()));
  }

  void nothing(const Entry&) {}
  void flatten(const Entry& entry) { push("flatten", entry); }
  void relu(const Entry& entry) { push("relu", entry); }
  void softmax(const Entry& entry) { push("softmax", entry); }
  void global_pool(const Entry& entry) {
    push("gridpool", entry);
    push("flatten", entry);
  }
  void dropout(const Entry& entry) { push("dropout", entry, {{"rate", entry.text({"rate", "p"}, "0.5")}}); }
  void leaky(const Entry& entry) {
    push("leakyrelu", entry, {{"slope", entry.text({"negative_slope", "alpha"}, "0.3")}});
  }
  void elu(const Entry& entry) { push("elu", entry, {{"alpha", entry.text({"alpha"}, "1")}}); }

  void activation(const Entry& entry) {
    static constexpr std::string_view names[] = {"linear", "relu",    "tanh", "sigmoid",
                                                 "elu",    "softmax", "gelu", "leaky_relu"};
    const std::string name = entry.text({"activation"}, "linear");
    if (std::ranges::find(names, name) == std::end(names))
      refuse(entry.place() + "no activation '" + name + "'" + nearest_of(name, names));
    if (name == "leaky_relu")
      push("leakyrelu", entry, {{"slope", "0.2"}});
    else if (name != "linear")
      push(name.c_str(), entry);
  }

  void conv(const Entry& entry) {
    if (const std::string dilation = entry.text({"dilation_rate"}, "1"); dilation != "1" && dilation != "1,1")
      refuse(entry.place() + "dilation_rate=" + dilation + " is not supported: use a convolution without it");
    const std::string old_kernel = entry.text({"nb_row"}) + "," + entry.text({"nb_col"});
    push("conv", entry,
         {{"filters", entry.text({"filters", "nb_filter"})},
          {"kernel", entry.text({"kernel_size"}, old_kernel)},
          {"stride", entry.text({"strides", "subsample"}, "1")},
          {"padding", entry.text({"padding", "border_mode"}, "valid")},
          {"groups", entry.text({"groups"}, "1")},
          {"bias", entry.text({"use_bias", "bias"}, "true")}});
    activation(entry);
  }

  void pool(const char* name, const Entry& entry) {
    const std::string kernel = entry.text({"pool_size"}, "2");
    push(name, entry,
         {{"kernel", kernel},
          {"stride", entry.text({"strides"}, kernel)},
          {"padding", entry.text({"padding", "border_mode"}, "valid")}});
  }
  void max_pool(const Entry& entry) { pool("maxpool", entry); }
  void mean_pool(const Entry& entry) { pool("avgpool", entry); }

  void dense(const Entry& entry) {
    push("linear", entry,
         {{"units", entry.text({"units", "output_dim"})}, {"bias", entry.text({"use_bias", "bias"}, "true")}});
    activation(entry);
  }

  // Keras' momentum is the weight of the old statistics, Layer::momentum that of the new ones.
  void batchnorm(const Entry& entry) {
    push("batchnorm", entry, {{"eps", entry.text({"epsilon"}, "0.001")}});
    Layer& layer = list_.layers.back();
    constexpr OptionInfo kept[] = {{"momentum", OptionInfo::Kind::number, "0.99", ""}};
    layer.momentum =
        1 -
        Options({"BatchNormalization", "", kept}, {{"momentum", entry.text({"momentum"}, "0.99")}}).number("momentum");
  }

  LayerList list_;
};

}  // namespace

LayerList keras_layers(const YAML::Node& root, const std::string& name) {
  const YAML::Node kind = root["class_name"];
  if (!kind || kind.as<std::string>() != "Sequential")
    refuse(name + ": " +
           (kind ? "class_name is '" + kind.as<std::string>() + "'" : std::string("it has no class_name")) +
           ": of what Keras writes, Sequential models can be read; state others as a list of layers");
  YAML::Node layers = root["config"];
  if (layers && layers.IsMap()) layers = layers["layers"];
  if (!layers || !layers.IsSequence() || layers.size() == 0) refuse(name + ": the model has no layers");
  return Reader().read(layers, name);
}

}  // namespace tutti::engine
