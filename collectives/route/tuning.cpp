#include "collectives/route/tuning.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "transports/core/host.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':'), line.size() - 1) + 1);
  return "processor";
}

// Ignores the affinity mask, so that ranks bound to cores by a launcher use the same rules.
int cores_of_host() { return cores_in_quota(static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)))); }

}  // namespace

std::string machine_key() {
  std::string key;
  for (const char c : processor() + " " + std::to_string(cores_of_host()) + " cores") {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u))
      key += static_cast<char>(std::tolower(u));
    else if (!key.empty() && key.back() != '-')
      key += '-';
  }
  return key;
}

std::string tuning_file(const Settings& settings) {
  if (settings.tuning == "off") return {};
  if (settings.tuning != "auto") return settings.tuning;
  const char* const config = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  if (config != nullptr && *config != '\0') return std::string(config) + "/tutti/" + machine_key() + ".rules";
  if (home == nullptr || *home == '\0') return {};
  return std::string(home) + "/.config/tutti/" + machine_key() + ".rules";
}

std::string read_tuning(const Settings& settings) {
  const std::string path = tuning_file(settings);
  if (path.empty()) return {};
  std::error_code none;
  if (settings.tuning == "auto" && !std::filesystem::exists(path, none)) return {};
  try {
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // some editors on Windows write it
    std::string text = read_text(path, longest_tuning);
    if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    return text;
  } catch (const Error& error) {
    throw Error(Code::invalid, "TUTTI_TUNING: " + std::string(error.what()) +
                                   "; make the file with `tutti tune`, or give auto or off");
  }
}

}  // namespace tutti
