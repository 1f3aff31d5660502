// Converts Keras' description of a Sequential model into a list of layers; for parse_layers() only.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "engine/models/layers.hpp"

namespace tutti::engine {

/// `root` is the top-level map, `name` the file's name in errors. Throws Error{invalid}.
LayerList keras_layers(const YAML::Node& root, const std::string& name);

}  // namespace tutti::engine
