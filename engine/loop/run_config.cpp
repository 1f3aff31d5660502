#include "engine/loop/run_config.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "engine/checkpoint/store.hpp"
#include "engine/config/documents.hpp"
#include "engine/loop/run_folder.hpp"
#include "transports/core/text_file.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) { return read_lines_if_any(file, DocumentLimits().bytes); }

/// The comment at the end of a line `key: value  # comment` of Config::resolved(); empty if there is none.
std::string comment_of(const std::string& line) {
  std::size_t at = line.find_first_not_of(' ', line.find(':') + 1);
  if (at != line.npos && line[at] == '"') {
    for (++at; at < line.size() && line[at] != '"'; ++at)
      if (line[at] == '\\') ++at;
  }
  at = at == line.npos ? at : line.find("# ", at);
  return at == line.npos ? std::string() : line.substr(at + 2);
}

/// The options of the section to which the option `key` belongs; null for a row of the table.
Options::Given* options_with(Config& config, const std::string& key) {
  if (std::ranges::find(config_table(), key, &ConfigInfo::key) != config_table().end()) return nullptr;
  for (const ConfigChoice& choice : config_choices())
    if (key.starts_with(std::string(choice.section) + ".")) return &choice.options(config);
  return nullptr;
}

}  // namespace

void read_run(Config& config, const fs::path& folder) {
  const fs::path file = folder / "config.yaml";
  config.read(file);
  const std::vector<std::string> lines = lines_of(file);
  const std::string here = file.string() + ":";
  for (auto source = config.sources.begin(); source != config.sources.end();) {
    auto& [key, from] = *source;
    std::size_t number = 0;
    if (from.starts_with(here)) std::from_chars(from.data() + here.size(), from.data() + from.size(), number);
    const std::string comment = number == 0 || number > lines.size() ? "" : comment_of(lines[number - 1]);
    if (comment == "default") {
      if (Options::Given* const options = options_with(config, key)) options->erase(key.substr(key.find('.') + 1));
      source = config.sources.erase(source);
      continue;
    }
    if (!comment.empty()) from = comment;
    ++source;
  }
}

void forget_options_of_others(Config& config, const Config& before) {
  for (const ConfigChoice& choice : config_choices()) {
    if (choice.name(config) == choice.name(before)) continue;
    const auto chosen = std::ranges::find(choice.table(), choice.name(config), &ChoiceInfo::name);
    Options::Given& options = choice.options(config);
    for (const auto& [key, value] : choice.options(const_cast<Config&>(before))) {  // not modified
      const auto same = options.find(key);
      if (same == options.end() || same->second != value) continue;
      if (chosen != choice.table().end() &&
          std::ranges::find(chosen->options, std::string_view(key), &OptionInfo::key) != chosen->options.end())
        continue;
      options.erase(same);
      config.sources.erase(std::string(choice.section) + "." + key);
    }
  }
}

bool has_checkpoint(const fs::path& folder) {
  Config config;
  config.run = folder.string();
  return CheckpointStore(checkpoint_folder(config), 0, false).last().has_value();
}

int ranks_of_run(const fs::path& folder) {
  constexpr std::string_view heading = "ranks: ";
  constexpr int most = 65'536;
  const fs::path file = folder / "environment.txt";
  for (const std::string& line : lines_of(file)) {
    if (!line.starts_with(heading)) continue;
    int ranks = 0;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + heading.size(), end, ranks).ptr != end || ranks < 1 || ranks > most)
      refuse(file.string() + ": '" + line + "' is no number of ranks that a run had; say -np N");
    return ranks;
  }
  return 0;
}

}  // namespace tutti::engine
