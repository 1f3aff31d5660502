// YAML and JSON from files that anybody may have written: read within limits, with the file and the line in every
// message.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tutti::engine {

/// What a document may have at most.
struct DocumentLimits {
  std::size_t bytes = std::size_t{16} << 20;  ///< of JSON, or of YAML's texts wherever aliases stand for them
  std::size_t nodes = 100'000;                ///< values, lists and maps; an alias counts as all that it stands for
  int depth = 64;                             ///< lists and maps within one another, aliases followed
};

/// Parses the first document of `text`, which is from `name`; an empty one is null. An alias within what it stands for
/// is refused, so that a walk over the result ends. Throws Error{invalid} with the text "NAME:LINE: what".
YAML::Node parse_yaml(const std::string& text, const std::string& name, const DocumentLimits& limits = {});
YAML::Node read_yaml(const std::filesystem::path& file, const DocumentLimits& limits = {});

/// Parses JSON, of which every object has each of its names once. Throws as parse_yaml() does.
nlohmann::json parse_json(std::string_view text, const std::string& name, const DocumentLimits& limits = {});

}  // namespace tutti::engine
