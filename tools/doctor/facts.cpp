#include "tools/doctor/facts.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace tutti::tools {
namespace {

constexpr std::size_t most_text = 1 << 20;
constexpr std::uint64_t no_limit = std::uint64_t{1} << 62;  // version 1 writes a number near 2^63 for none

/// Names of the files with the limit and the use.
struct Files {
  const char *most, *now;
};

Files files_of(std::string_view controller, bool is_first_version) noexcept {
  if (controller == "pids") return {"/pids.max", "/pids.current"};
  return is_first_version ? Files{"/memory.limit_in_bytes", "/memory.usage_in_bytes"}
                          : Files{"/memory.max", "/memory.current"};
}

/// In a container, `path` may not exist under `mount`; then only the files of `mount` count.
void look_upwards(const std::string& mount, std::string path, Files files, GroupLimit& least) {
  for (;;) {
    const std::string group = path.size() > 1 ? mount + path : mount;
    const Number most = number_in(line_of(group + files.most));
    if (most && *most < least.most.value_or(no_limit)) least = {most, number_in(line_of(group + files.now))};
    if (path.size() <= 1) return;
    path.resize(path.find_last_of('/'));
  }
}

}  // namespace

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string whole_text(const std::string& path) {
  std::ifstream file(path);
  std::string text(most_text, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

Number number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? Number(value) : std::nullopt;
}

Number memory_field(std::string_view text, std::string_view field) {
  for (std::size_t at = 0; (at = text.find(field, at)) != text.npos; at += field.size()) {
    const bool begins_line = at == 0 || text[at - 1] == '\n';
    const std::string_view rest = text.substr(at + field.size());
    if (!begins_line || !rest.starts_with(':')) continue;
    const Number kib = number_in(rest.substr(1));
    return kib && *kib < no_limit >> 10 ? Number(*kib << 10) : std::nullopt;
  }
  return std::nullopt;
}

std::string chosen_word(std::string_view text) {
  const std::size_t begin = text.find('['), end = text.find(']');
  return begin < end && end != text.npos ? std::string(text.substr(begin + 1, end - begin - 1)) : std::string();
}

ProcessorTimes processor_times(std::string_view text) {
  constexpr int fields = 8, stolen = 7;  // user nice system idle iowait irq softirq steal; the guests' are in user
  std::istringstream line{std::string(text.substr(0, text.find('\n')))};
  std::string label;
  ProcessorTimes times;
  if (!(line >> label) || label != "cpu") return times;
  std::uint64_t ticks = 0;
  for (int i = 0; i < fields && line >> ticks; ++i) {
    times.all += ticks;
    if (i == stolen) times.stolen = ticks;
  }
  return times;
}

GroupLimit group_limit(std::string_view membership, const std::string& root, std::string_view controller) {
  GroupLimit least;
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const bool has_it = ("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos;
    if (controllers.empty())
      for (const char* const mount : {"", "/unified"})
        look_upwards(root + mount, path, files_of(controller, false), least);
    else if (has_it)
      look_upwards(root + "/" + std::string(controller), path, files_of(controller, true), least);
  }
  return least;
}

}  // namespace tutti::tools
