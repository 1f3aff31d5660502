// Prints configurations and their keys: values as YAML, help for a terminal, tables for the book.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <type_traits>

#include "engine/config.hpp"

namespace tutti::engine {
namespace {

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size() + 1, width), ' ');
  return text;
}

std::string with_commas(std::string_view words) {
  std::string text(words);
  for (std::size_t at = 0; (at = text.find(' ', at)) != text.npos; at += 2) text.replace(at, 1, ", ");
  return text;
}

std::string_view section(std::string_view key) { return key.substr(0, key.find('.')); }

/// The options of the chosen entry, given or default; for a model in a file, only those that are given.
Options::Given chosen_options(const Config& config, const ConfigChoice& choice) {
  Options::Given found = choice.options(const_cast<Config&>(config));  // not modified
  for (const ChoiceInfo& one : choice.table())
    if (one.name == choice.name(config))
      for (const OptionInfo& option : one.options) found.emplace(option.key, option.value);
  return found;
}

/// The options that the description of an entry lists: all, or those whose defaults differ from the shared ones.
std::vector<OptionInfo> told_options(const ConfigChoice& choice, const ChoiceInfo& one) {
  std::vector<OptionInfo> told(one.options.begin(), one.options.end());
  if (!choice.shared) return told;
  std::erase_if(told, [&](const OptionInfo& option) {
    const auto shared = choice.shared();
    const auto same = std::ranges::find(shared, option.key, &OptionInfo::key);
    return same != shared.end() && same->value == option.value;
  });
  return told;
}

/// True if YAML needs no quotes for this text.
bool plain(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  return !text.empty() && text.find_first_not_of(safe) == text.npos && text.front() != '-';
}

std::string as_yaml(const std::string& text) {
  if (plain(text)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(c));
      quoted += code;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

std::string value_text(const Config& config, const ConfigInfo& info) {
  const ConfigInfo::Value value = info.value(const_cast<Config&>(config));  // not modified
  return std::visit(
      [](const auto* from) {
        if constexpr (std::is_same_v<decltype(from), const std::string*>) {
          return *from;
        } else if constexpr (std::is_same_v<decltype(from), const bool*>) {
          return std::string(*from ? "true" : "false");
        } else {
          char text[32];
          return std::string(text, std::to_chars(text, text + sizeof text, *from).ptr);
        }
      },
      value);
}

std::string Config::resolved() const {
  std::string text, open;
  const auto line = [&](std::string_view key, const std::string& value) {
    const auto source = sources.find(key);
    const std::string shown = (open.empty() ? "" : "  ") + std::string(key.substr(open.empty() ? 0 : open.size() + 1));
    text += padded(shown + ": " + as_yaml(value), 40) + "# " + (source == sources.end() ? "default" : source->second) +
            "\n";
  };
  const std::span<const ConfigInfo> table = config_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const ConfigInfo& info = table[i];
    const std::string here = info.key.find('.') == info.key.npos ? "" : std::string(section(info.key));
    if (here != open && !here.empty()) text += here + ":\n";
    open = here;
    line(info.key, value_text(*this, info));
    const bool last = i + 1 == table.size() || section(table[i + 1].key) != section(info.key);
    for (const ConfigChoice& choice : config_choices())
      if (last && choice.section == open)
        for (const auto& [key, value] : chosen_options(*this, choice)) line(open + "." + key, value);
  }
  return text;
}

namespace {

std::string with_meanings(std::span<const OptionInfo> options) {
  std::string text;
  for (const OptionInfo& option : options)
    text += "    " + padded(std::string(option.key), 24) + std::string(option.meaning) + " [" +
            std::string(option.value) + "]\n";
  return text;
}

/// All options in one line, as key=value.
std::string with_values(std::span<const OptionInfo> options) {
  std::string text;
  for (const OptionInfo& option : options)
    text += (text.empty() ? "    " : ", ") + std::string(option.key) + "=" + std::string(option.value);
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string config_help() {
  const Config defaults;
  std::string text = "Keys, for files (nested or dotted) and for key=value:\n";
  for (const ConfigInfo& info : config_table()) {
    const std::string value = value_text(defaults, info);
    text += "  " + padded(std::string(info.key), 26) + std::string(info.meaning);
    if (!info.allowed.empty()) text += " (" + std::string(info.allowed) + ")";
    if (!value.empty()) text += " [" + value + (info.unit.empty() ? "" : " " + std::string(info.unit)) + "]";
    if (!info.aliases.empty()) text += "; also " + with_commas(info.aliases);
    text += "\n";
  }
  for (const ConfigChoice& choice : config_choices()) {
    text += "\n" + std::string(choice.key) + ", and its options as " + std::string(choice.section) + ".OPTION:\n";
    for (const ChoiceInfo& one : choice.table()) {
      text += "  " + padded(std::string(one.name), 26) + std::string(one.meaning) + "\n";
      if (choice.shared)
        text += with_values(told_options(choice, one));
      else
        text += with_meanings(one.options);
    }
    if (choice.shared) text += "  all of them have\n" + with_meanings(choice.shared());
  }
  return text;
}

std::string config_markdown() {
  const Config defaults;
  std::string text = "| key | default | unit | meaning | other names |\n|---|---|---|---|---|\n";
  for (const ConfigInfo& info : config_table()) {
    std::string allowed;
    for (const char c : info.allowed) allowed += c == '|' ? std::string(", ") : std::string(1, c);
    text += "| `" + std::string(info.key) + "` | " + value_text(defaults, info) + " | " + std::string(info.unit) +
            " | " + std::string(info.meaning) + (allowed.empty() ? "" : ": " + allowed) + " | " +
            with_commas(info.aliases) + " |\n";
  }
  for (const ConfigChoice& choice : config_choices()) {
    text +=
        "\n| `" + std::string(choice.key) + "` | | options, with what holds unless they are given |\n|---|---|---|\n";
    for (const ChoiceInfo& one : choice.table()) {
      text += "| `" + std::string(one.name) + "` | " + std::string(one.meaning) + " | ";
      const std::vector<OptionInfo> told = told_options(choice, one);
      for (std::size_t i = 0; i < told.size(); ++i)
        text += (i == 0 ? "`" : ", `") + std::string(told[i].key) + "=" + std::string(told[i].value) + "`";
      text += " |\n";
    }
    if (!choice.shared) continue;
    text += "\n| option of every `" + std::string(choice.key) + "` | default | meaning |\n|---|---|---|\n";
    for (const OptionInfo& option : choice.shared())
      text += "| `" + std::string(choice.section) + "." + std::string(option.key) + "` | " + std::string(option.value) +
              " | " + std::string(option.meaning) + " |\n";
  }
  text += "\n| other name | of |\n|---|---|\n";
  for (const OptionAlias& each : option_aliases())
    text += "| `" + std::string(each.alias) + "` | `" + std::string(each.key) + "` |\n";
  return text;
}

}  // namespace tutti::engine
