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

/// The limits for a document.
struct DocumentLimits {
  std::size_t bytes = std::size_t{16} << 20;  ///< of a JSON document; of all texts in YAML, an alias counts as its text
  std::size_t nodes = 100'000;  ///< values, lists and maps; an alias counts as all nodes that it stands for
  int depth = 64;               ///< of nested lists and maps, with aliases replaced by what they stand for
};

/// Parses the first document of `text`, of at most 1 MiB; an empty document becomes null. `name` is the file's name in
/// errors. Refuses an alias inside the node that it stands for, so the result has no cycles. Throws Error{invalid} with
/// the text "NAME:LINE: what".
YAML::Node parse_yaml(const std::string& text, const std::string& name, const DocumentLimits& limits = {});
YAML::Node read_yaml(const std::filesystem::path& file, const DocumentLimits& limits = {});

/// Parses JSON. Refuses an object that has a name twice. Throws as parse_yaml() does.
nlohmann::json parse_json(std::string_view text, const std::string& name, const DocumentLimits& limits = {});

}  // namespace tutti::engine
