// Reads the file of settings.
#include "benchmarks/versus/variants.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tutti/settings.hpp"
#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

/// Rejects a key that occurs twice, which yaml-cpp accepts.
void once(const YAML::Node& node) {
  std::set<std::string> keys;
  for (const auto& entry : node)
    if (!keys.insert(entry.first.as<std::string>()).second)
      throw YAML::Exception(entry.first.Mark(), "'" + entry.first.as<std::string>() + "' stands here twice");
}

Environment environment_of(const YAML::Node& node) {
  once(node);
  Environment environment;
  for (const auto& entry : node) environment[entry.first.as<std::string>()] = entry.second.as<std::string>();
  return environment;
}

void only(const YAML::Node& node, const std::vector<std::string_view>& known) {
  once(node);
  for (const auto& entry : node) {
    const std::string key = entry.first.as<std::string>();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view near = nearest(key, known);
    throw YAML::Exception(entry.first.Mark(),
                          "there is no '" + key + "' here" +
                              (near.empty() ? std::string() : ": did you mean '" + std::string(near) + "'?"));
  }
}

Variant variant_of(const YAML::Node& node) {
  only(node, {"about", "env", "crowded", "from", "transport"});
  Variant variant;
  variant.about = node["about"].as<std::string>("");
  variant.environment = environment_of(node["env"]);
  variant.crowded = environment_of(node["crowded"]);
  if (node["from"]) variant.from = parse_bytes(node["from"].as<std::string>());
  variant.transport = node["transport"].as<std::string>("");
  return variant;
}

void read_family(const YAML::Node& node, Family& family) {
  only(node, {"title", "transport", "always", "crowded", "variants"});
  if (node["title"]) family.title = node["title"].as<std::string>();
  if (node["transport"]) family.transport = node["transport"].as<std::string>();
  if (node["always"]) family.always = environment_of(node["always"]);
  if (node["crowded"]) family.crowded = environment_of(node["crowded"]);
  once(node["variants"]);
  for (const auto& entry : node["variants"]) family.variants[entry.first.as<std::string>()] = variant_of(entry.second);
}

}  // namespace

void read_variants(const std::string& file, Families& families) {
  try {
    const YAML::Node whole = YAML::LoadFile(file);
    once(whole);
    for (const auto& entry : whole) read_family(entry.second, families[entry.first.as<std::string>()]);
  } catch (const YAML::BadFile&) {
    throw Error(Code::invalid, "cannot read the peers' settings in " + file);
  } catch (const YAML::Exception& error) {
    const std::string where = error.mark.is_null() ? "" : ", line " + std::to_string(error.mark.line + 1);
    throw Error(Code::invalid, file + where + ": " + error.msg);
  }
}

std::string share_folder() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (folder.parent_path() / "share/tutti/bench").string();
}

}  // namespace tutti::bench
