// Prints the documents of a YAML file as one JSON list, for tests in Python, whose library knows no YAML. Scalars stay
// texts.
#include <yaml-cpp/yaml.h>

#include <cstdio>
#include <string>

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json(const YAML::Node& node) {
  if (node.IsNull()) return "null";
  if (node.IsScalar()) return quoted(node.Scalar());
  std::string items;
  for (const auto& item : node) {
    if (!items.empty()) items += ", ";
    items += node.IsMap() ? quoted(item.first.Scalar()) + ": " + json(item.second) : json(item);
  }
  return node.IsMap() ? "{" + items + "}" : "[" + items + "]";
}

}  // namespace

int main(int count, char** words) {
  try {
    std::string all;
    for (const YAML::Node& document : YAML::LoadAllFromFile(count > 1 ? words[1] : ""))
      all += (all.empty() ? "" : ", ") + json(document);
    std::printf("[%s]\n", all.c_str());
    return 0;
  } catch (const YAML::Exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
