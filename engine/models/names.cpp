#include "engine/models/names.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/config/options.hpp"

namespace tutti::engine {
namespace {

/// The parts of a name. "block1_2.body.conv1.weight" has the module "block1_2.body", the layer "conv", the number 1 and
/// the tensor "weight".
struct Parts {
  std::string module, layer, tensor;
  std::size_t number = 0;  ///< of the layer, from 1
};

std::optional<Parts> parts_of(std::string_view name) {
  const std::size_t last = name.rfind('.');
  if (last == name.npos) return std::nullopt;
  std::string_view path = name.substr(0, last);
  const std::size_t before = path.rfind('.');
  Parts parts{.module = std::string(before == path.npos ? "" : path.substr(0, before)),
              .layer = {},
              .tensor = std::string(name.substr(last + 1))};
  if (before != path.npos) path.remove_prefix(before + 1);
  const std::size_t digits = std::min(path.find_first_of("0123456789"), path.size());
  parts.layer = path.substr(0, digits);
  const auto [rest, error] = std::from_chars(path.data() + digits, path.data() + path.size(), parts.number);
  if (error != std::errc() || rest != path.data() + path.size() || parts.number == 0) return std::nullopt;
  return parts;
}

/// The name of a layer in one of torchvision's sequences of layers; empty if there is none.
std::string place(std::string_view sequence, std::span<const int> places, std::size_t number) {
  if (number > places.size()) return {};
  return std::string(sequence) + "." + std::to_string(places[number - 1]);
}

std::string alexnet_name(const Parts& parts) {
  constexpr int convolutions[] = {0, 3, 6, 8, 10}, dense[] = {1, 4, 6};
  if (parts.layer == "conv") return place("features", convolutions, parts.number);
  return parts.layer == "fc" ? place("classifier", dense, parts.number) : std::string();
}

std::string vgg16_name(const Parts& parts) {
  constexpr int convolutions[] = {0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28}, dense[] = {0, 3, 6};
  if (parts.layer == "conv") return place("features", convolutions, parts.number);
  return parts.layer == "fc" ? place("classifier", dense, parts.number) : std::string();
}

/// In torchvision "block1_2.body" is "layer1.1", and "block1_2.shortcut" is "layer1.1.downsample".
std::string resnet_name(const Parts& parts) {
  const std::string number = std::to_string(parts.number), layer = parts.layer == "norm" ? "bn" : "conv";
  if (parts.module == "head") return "fc";
  if (parts.module == "stem") return layer + number;
  const std::size_t line = parts.module.find('_'), dot = parts.module.find('.');
  if (!parts.module.starts_with("block") || line == parts.module.npos || dot == parts.module.npos) return {};
  const int unit = std::stoi(parts.module.substr(line + 1, dot - line - 1)) - 1;
  const std::string block = "layer" + parts.module.substr(5, line - 5) + "." + std::to_string(unit);
  if (parts.module.substr(dot) == ".shortcut") return block + ".downsample" + (parts.layer == "norm" ? ".1" : ".0");
  return block + "." + layer + number;
}

/// In torchvision "inception3a.way2" is "inception3a.branch2". A branch of several convolutions is a sequence; in
/// branch4 a pool precedes the only convolution.
std::string googlenet_name(const Parts& parts) {
  const std::string layer = parts.layer == "norm" ? ".bn" : ".conv", number = std::to_string(parts.number);
  if (parts.module == "head") return "fc";
  if (parts.module == "stem") return "conv" + number + layer;
  const std::size_t dot = parts.module.find('.');
  if (!parts.module.starts_with("inception") || dot == parts.module.npos) return {};
  const std::string way = parts.module.substr(dot + 4);
  const std::string branch = parts.module.substr(0, dot) + ".branch" + way;
  if (way == "1") return branch + layer;
  return branch + "." + (way == "4" ? "1" : std::to_string(parts.number - 1)) + layer;
}

}  // namespace

std::map<std::string, std::string> torchvision_names(std::string_view model, std::span<const std::string> names) {
  using Rule = std::string (*)(const Parts&);
  constexpr std::pair<std::string_view, Rule> rules[] = {{"alexnet", alexnet_name},
                                                         {"vgg16", vgg16_name},
                                                         {"resnet18", resnet_name},
                                                         {"resnet50", resnet_name},
                                                         {"googlenet", googlenet_name}};
  const auto* const rule = std::ranges::find(rules, model, &std::pair<std::string_view, Rule>::first);
  std::map<std::string, std::string> found;
  if (rule == std::end(rules)) return found;
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(names, [&](const std::string& name) { return name.find(part) != name.npos; });
  };
  if (model == "vgg16" && has("norm")) return found;       // torchvision's has biases there, too
  if (model == "googlenet" && !has("norm")) return found;  // torchvision's always has norms
  for (const std::string& name : names) {
    const std::optional<Parts> parts = parts_of(name);
    const std::string theirs = parts ? rule->second(*parts) : std::string();
    if (theirs.empty()) refuse("'" + name + "' is no tensor of model=" + std::string(model));
    found[name] = theirs + "." + parts->tensor;
  }
  return found;
}

}  // namespace tutti::engine
