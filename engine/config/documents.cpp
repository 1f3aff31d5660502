// YAML is parsed twice: first into events alone, which are counted, and then, if they are within the limits, into
// nodes.
#include "engine/config/documents.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "engine/config/options.hpp"
#include "transports/core/text_file.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_yaml = std::size_t{1} << 20;  // bytes

std::string too_deep(const DocumentLimits& limits) {
  return "has more than " + std::to_string(limits.depth) + " lists and maps within one another";
}
std::string too_large(const DocumentLimits& limits) {
  return "has more than " + std::to_string(limits.nodes) + " values";
}

/// Counts the nodes of a document and the bytes of their texts. An alias counts as all nodes that it stands for.
class Census final : public YAML::EventHandler {
 public:
  Census(const std::string& name, const DocumentLimits& limits) : name_(name), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor, 0); }
  void OnScalar(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                const std::string& value) override {
    leaf(mark, anchor, value.size());
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) fail(mark, "has an alias within what it stands for");
    add(mark, found->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    begin(mark, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    begin(mark, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Tree {
    std::size_t nodes = 1;
    int height = 0;         // nested lists and maps
    std::size_t bytes = 0;  // of texts
  };
  struct Open {
    Tree tree;
    YAML::anchor_t anchor = YAML::NullAnchor;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    refuse(name_ + ":" + std::to_string(mark.line + 1) + ": " + what);
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t bytes) {
    const Tree tree{1, 0, bytes};
    if (anchor != YAML::NullAnchor) anchored_[anchor] = tree;
    add(mark, tree);
  }

  /// Adds a tree to all open lists and maps. Only the totals of the document are compared with the limits.
  void add(const YAML::Mark& mark, const Tree& tree) {
    if (static_cast<int>(open_.size()) + tree.height > limits_.depth) fail(mark, too_deep(limits_));
    nodes_ += tree.nodes;
    if (nodes_ > limits_.nodes) fail(mark, too_large(limits_));
    bytes_ += tree.bytes;
    if (bytes_ > limits_.bytes)
      fail(mark, "has more than " + std::to_string(limits_.bytes) + " bytes where its aliases stand for texts");
    for (std::size_t i = 0; i < open_.size(); ++i) {
      Tree& outer = open_[i].tree;
      outer.nodes += tree.nodes;
      outer.bytes += tree.bytes;
      outer.height = std::max(outer.height, static_cast<int>(open_.size() - i) + tree.height);
    }
  }
  void begin(const YAML::Mark& mark, YAML::anchor_t anchor) {
    add(mark, {1, 1, 0});
    open_.push_back({{1, 1, 0}, anchor});
  }
  void end() {
    if (open_.back().anchor != YAML::NullAnchor) anchored_[open_.back().anchor] = open_.back().tree;
    open_.pop_back();
  }

  const std::string& name_;
  const DocumentLimits& limits_;
  std::size_t nodes_ = 0, bytes_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Tree> anchored_;
};

}  // namespace

YAML::Node parse_yaml(const std::string& text, const std::string& name, const DocumentLimits& limits) {
  if (text.size() > longest_yaml)
    refuse(name + ": has more than " + std::to_string(longest_yaml) + " bytes, the limit for YAML");
  // yaml-cpp turns a whole flow sequence or map into tokens, of some hundred bytes each, before its first event.
  const auto opens_or_parts = [](char c) { return c == '[' || c == '{' || c == ','; };
  if (static_cast<std::size_t>(std::ranges::count_if(text, opens_or_parts)) > 2 * limits.nodes)
    refuse(name + ": " + too_large(limits));
  try {
    std::istringstream events(text);
    Census census(name, limits);
    YAML::Parser(events).HandleNextDocument(census);
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    refuse(name + ":" + std::to_string(error.mark.line + 1) + ": " + error.msg);
  }
}

YAML::Node read_yaml(const std::filesystem::path& file, const DocumentLimits& limits) {
  return parse_yaml(read_text(file, limits.bytes), file.string(), limits);
}

namespace {

/// Refuses JSON that exceeds the limits or has a name twice in an object, while it is parsed. Json::parse() then
/// reports errors of syntax. This is no callback of Json::parse(), because nlohmann::json then scans the enclosing
/// object after each object in it. For a manifest of 100,000 files that would take minutes.
class JsonCheck final : public nlohmann::json_sax<Json> {
 public:
  JsonCheck(const std::string& name, const DocumentLimits& limits) : name_(name), limits_(limits) {}

  bool null() override { return count(); }
  bool boolean(bool /*value*/) override { return count(); }
  bool number_integer(number_integer_t /*value*/) override { return count(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return count(); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return count(); }
  bool string(string_t& /*value*/) override { return count(); }
  bool binary(binary_t& /*value*/) override { return count(); }
  bool start_object(std::size_t /*elements*/) override {
    names_.emplace_back();
    return open();
  }
  bool key(string_t& name) override {
    if (!names_.back().insert(name).second) refuse(name_ + ": has '" + name + "' twice");
    return true;
  }
  bool end_object() override {
    names_.pop_back();
    return end_array();
  }
  bool start_array(std::size_t /*elements*/) override { return open(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/, const Json::exception& /*error*/) override {
    return false;
  }

 private:
  bool open() {
    if (depth_++ >= limits_.depth) refuse(name_ + ": " + too_deep(limits_));
    return count();
  }
  bool count() {
    if (++nodes_ > limits_.nodes) refuse(name_ + ": " + too_large(limits_));
    return true;
  }

  const std::string& name_;
  const DocumentLimits& limits_;
  int depth_ = 0;
  std::size_t nodes_ = 0;
  std::vector<std::set<std::string, std::less<>>> names_;  // of the objects that are open, outermost first
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const DocumentLimits& limits) {
  if (text.size() > limits.bytes)
    refuse(name + ": has more than " + std::to_string(limits.bytes) + " bytes, the limit for files of its kind");
  JsonCheck check(name, limits);
  Json::sax_parse(text.begin(), text.end(), &check);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const auto line =
        1 +
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size())), '\n');
    refuse(name + ":" + std::to_string(line) + ": is no JSON: " + error.what());
  } catch (const Json::exception& error) {  // a number that is too large for a double
    refuse(name + ": is no JSON: " + error.what());
  }
}

}  // namespace tutti::engine
