// The `tutti` command: finds the subcommand, which is built in or a program tutti-X, and prints errors as one line.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>

#include "tools/command.hpp"
#include "tools/options.hpp"
#include "tools/run/signals.hpp"

namespace tutti::tools {
namespace {

constexpr int exit_usage = 2;
constexpr int exit_not_found = 127;

const Command* built_in(std::string_view name) {
  for (const NamedCommand& entry : commands())
    if (entry.name == name) return entry.command;
  return nullptr;
}

/// Returns the folders to search for a program tutti-X: this program's own folder, then those of PATH.
std::vector<std::filesystem::path> program_folders() {
  std::vector<std::filesystem::path> folders;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!ignored) folders.push_back(self.parent_path());
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    folders.emplace_back(folder.empty() ? "." : folder);
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return folders;
}

std::string find_program(const std::string& name) {
  for (const auto& folder : program_folders()) {
    const std::filesystem::path file = folder / ("tutti-" + name);
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

/// Returns the names X of the programs tutti-X in these folders.
std::vector<std::string> program_names() {
  std::vector<std::string> names;
  for (const auto& folder : program_folders()) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      const std::string file = entry.path().filename();
      if (file.starts_with("tutti-") && access(entry.path().c_str(), X_OK) == 0) names.push_back(file.substr(6));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// Returns what to do when there is no command and no program of this name.
std::string advice_on(std::string_view name) {
  if (name == "data") return "this tutti was built without training's data formats (-DTUTTI_WITH_DATA=ON)";
  if (name == "train")
    return "it is part of training, which needs LibTorch: install the package tutti-training, or build tutti with "
           "-DTUTTI_WITH_TORCH=ON";
  const std::vector<std::string> programs = program_names();
  std::vector<std::string_view> known(programs.begin(), programs.end());
  known.push_back("help");
  for (const NamedCommand& entry : commands()) known.push_back(entry.name);
  const std::string_view near = nearest(name, known);
  return (near.empty() ? "" : fmt::format("did you mean '{}'? ", near)) + "see `tutti help`";
}

int run_program(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string file = name.find('/') == std::string::npos ? find_program(name) : "";
  if (file.empty()) {
    fmt::print(stderr, "tutti: there is no command '{}' and no program 'tutti-{}' beside tutti or on PATH: {}\n", name,
               name, advice_on(name));
    return exit_usage;
  }
  std::vector<char*> argv = {const_cast<char*>(file.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(file.c_str(), argv.data());
  const std::error_code why(errno, std::generic_category());
  fmt::print(stderr, "tutti: cannot run {}: {}\n", file, why.message());
  return exit_not_found;
}

void print_help() {
  fmt::print("tutti {}: collectives with pluggable transports\n\nusage: tutti COMMAND [flags]\n\n", version());
  for (const NamedCommand& entry : commands()) fmt::print("  {:<10} {}\n", entry.name, entry.command->summary);
  for (const std::string& name : program_names()) fmt::print("  {:<10} {}\n", name, find_program(name));
  fmt::print("\n`tutti COMMAND --help` explains one; `tutti --version` prints the version.\n");
}

int run(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    fmt::print(stderr, "tutti: which command? see `tutti help`\n");
    return exit_usage;
  }
  if (arguments[0] == "--version" || arguments[0] == "version") {
    fmt::print("tutti {}\n", version());
    return 0;
  }
  const bool asks = arguments[0] == "help" || arguments[0] == "--help" || arguments[0] == "-h";
  if (asks && arguments.size() == 1) {
    print_help();
    return 0;
  }
  const std::string name = asks ? arguments[1] : arguments[0];
  arguments.erase(arguments.begin());
  if (asks) arguments = {"--help"};
  if (name.starts_with("-"))
    throw Error(Code::invalid,
                fmt::format("unknown flag '{}': tutti itself has --version and --help; see `tutti help`", name));
  if (const Command* command = built_in(name)) return command->run(arguments);
  return run_program(name, arguments);
}

int guarded(const std::vector<std::string>& arguments) {
  const std::string who =
      arguments.empty() || arguments[0].starts_with("-") ? std::string("tutti") : "tutti " + arguments[0];
  try {
    return run(arguments);
  } catch (const Finished& finished) {
    return finished.exit_code;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", who, error.what());
    return error.code() == Code::invalid ? exit_usage : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", who, error.what());
    return 1;
  }
}

/// Flushes stdout and returns the exit code: 1 if `code` is 0 but not all output could be written, for example to a
/// full disk; otherwise `code`. A reader that has gone is no error.
int ends_of_output(int code) {
  if (code != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || errno == EPIPE) return code;
  fmt::print(stderr, "tutti: what it said was not all written to stdout: {}\n", std::strerror(errno));
  return 1;
}

}  // namespace
}  // namespace tutti::tools

int main(int count, char** words) {
  tutti::tools::fill_standard_descriptors();
  tutti::tools::reset_signals();  // a parent may have set SIGCHLD to be ignored, which would hide the ends of children
  const int code = tutti::tools::guarded({words + std::min(count, 1), words + count});
  return tutti::tools::ends_of_output(code);
}
