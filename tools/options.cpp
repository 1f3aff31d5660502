// Additions to CLI11: the nearest flag, -np, and programs with flags of their own.
#include "tools/options.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace tutti::tools {
namespace {

/// Adds a dash to flags with one dash and several letters, such as mpirun's -np and -hostfile: CLI11 does not support
/// them. "-h..." is never -h with a value.
std::string with_two_dashes(const CLI::App& app, const std::string& argument) {
  if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') return argument;
  return argument[1] == 'h' || is_flag(app, "-" + argument) ? "-" + argument : argument;
}

std::string did_you_mean(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const bool one_dash = flag.size() > 2 && flag[1] != '-';
  const std::string_view near = nearest((one_dash ? "-" : "") + flag.substr(0, flag.find('=')), candidates);
  return near.empty() ? std::string() : "did you mean '" + std::string(near) + "'? ";
}

[[noreturn]] void unexpected(const CLI::App& app, const std::string& argument) {
  if (argument.starts_with("-")) usage_error(app, "unknown flag '" + argument + "': " + did_you_mean(app, argument));
  usage_error(app, "unexpected argument '" + argument + "': ");
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Parses the known arguments. The others remain in app.remaining().
void parse_known(CLI::App& app, std::vector<std::string> arguments) {
  for (std::string& argument : arguments) argument = with_two_dashes(app, argument);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector in reverse order
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    throw Finished{0};
  } catch (const CLI::ParseError& error) {
    const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
    const bool of_a_value = code == CLI::ExitCodes::ValidationError || code == CLI::ExitCodes::ConversionError;
    // If a required flag is missing, a misspelt one is the likely cause. Flags after the first word may be the
    // program's.
    for (const std::string& rest : app.remaining()) {
      if (rest.starts_with("-") && !of_a_value) unexpected(app, rest);
      if (app.get_prefix_command()) break;
    }
    usage_error(app, one_line(error.what()) + ": ");
  }
}

}  // namespace

bool is_flag(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  return name.starts_with("-") && (app.get_option_no_throw(name) || app.get_option_no_throw("-" + name));
}

void add_settings(CLI::App& app, Settings& settings, const std::string& group) {
  for (const SettingInfo& row : setting_table()) {
    const std::string key(row.key);
    std::string dashed = key;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const std::string flags = dashed == key ? "--" + key : "--" + dashed + ",--" + key;
    const auto take = [&settings, key](const std::string& value) { settings.set(key, value, "flag"); };
    app.add_option_function<std::string>(flags, take, std::string(row.meaning))->group(group);
  }
}

void parse(CLI::App& app, const std::vector<std::string>& arguments) {
  app.allow_extras();
  parse_known(app, arguments);
  if (const auto rest = app.remaining(); !rest.empty()) {
    const auto flag = std::find_if(rest.begin(), rest.end(), [](const auto& text) { return text.starts_with("-"); });
    unexpected(app, flag == rest.end() ? rest.front() : *flag);
  }
}

std::vector<std::string> parse_before_program(CLI::App& app, const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  app.prefix_command();
  parse_known(app, {arguments.begin(), dashes});
  // The result is taken from `arguments`, because parsing has changed "-flag" to "--flag" in its own copy.
  const std::vector<std::string> rest = app.remaining();
  if (!rest.empty() && rest.front().starts_with("-")) unexpected(app, rest.front());
  if (!rest.empty()) return {dashes - static_cast<std::ptrdiff_t>(rest.size()), arguments.end()};
  return {dashes == arguments.end() ? dashes : dashes + 1, arguments.end()};
}

void usage_error(const CLI::App& app, const std::string& what) {
  throw Error(Code::invalid, what + "see `" + app.get_name() + " --help`");
}

void fill_standard_descriptors() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace tutti::tools
