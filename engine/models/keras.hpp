// What Keras writes of a Sequential model, as a list of layers; for parse_layers() alone.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

#include "engine/models/layers.hpp"

namespace tutti::engine {

/// `root` is the file's map, `name` what errors call the file. Throws Error{invalid}.
LayerList keras_layers(const YAML::Node& root, const std::string& name);

}  // namespace tutti::engine
