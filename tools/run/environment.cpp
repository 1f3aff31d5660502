// Composes a rank's environment, and searches for its program.
#include "tools/run/environment.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <string_view>

namespace tutti::tools {
namespace {

/// Variables by which an outer launcher describes this process. They would be wrong for the ranks.
constexpr std::array<std::string_view, 16> others = {
    "RANK",        "WORLD_SIZE",        "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PMI_RANK",       "PMI_SIZE",
    "PMI_FD",      "MPI_LOCALRANKID",   "PMIX_RANK",  "MPI_LOCALNRANKS",  "PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID",
    "TUTTI_STORE", "TUTTI_RECORDER_FD", "TUTTI_JOIN", "TUTTI_ELASTIC"};

bool is_others(std::string_view name) {
  return name.starts_with("OMPI_COMM_WORLD_") || std::find(others.begin(), others.end(), name) != others.end();
}

bool executable_file(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode)) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EACCES;
    return false;
  }
  return access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string Job::variable(const std::string& name, const std::string& otherwise) const {
  const auto found = variables.find(name);
  const char* const value = found == variables.end() ? std::getenv(name.c_str()) : found->second.c_str();
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::vector<std::string> rank_environment(const Job& job, int rank, int join) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || is_others(text.substr(0, equals))) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : job.variables) variables[name] = value;
  if (!job.hosts.empty() && !job.hosts.front().rack.empty()) variables["TUTTI_RACK"] = job.hosts.front().rack;
  variables["TUTTI_RANK"] = std::to_string(rank);
  variables["TUTTI_SIZE"] = std::to_string(job.ranks);
  const auto local = std::find(job.here.begin(), job.here.end(), rank) - job.here.begin();
  variables["TUTTI_LOCAL_RANK"] = std::to_string(local);
  variables["TUTTI_LOCAL_SIZE"] = std::to_string(job.here.size());
  variables["TUTTI_STARTER"] = job.mark;
  if (join > 0) variables["TUTTI_JOIN"] = std::to_string(join);
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + "=" + value);
  return lines;
}

void add_own_variables(std::map<std::string, std::string>& variables) {
  // These variables describe one host, one rank or another job.
  constexpr std::array<std::string_view, 12> own = {
      "TUTTI_RANK",    "TUTTI_SIZE",         "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE",  "TUTTI_HOST_ID", "TUTTI_STORE",
      "TUTTI_STARTER", "TUTTI_REMOTE_START", "TUTTI_RACK",       "TUTTI_RECORDER_FD", "TUTTI_JOIN",    "TUTTI_ELASTIC"};
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("TUTTI_") && name != "OMP_NUM_THREADS") continue;
    if (name.size() == text.size() || std::find(own.begin(), own.end(), name) != own.end()) continue;
    variables.emplace(name, text.substr(name.size() + 1));
  }
}

std::string find_executable(const std::string& name) {
  if (name.find('/') != std::string::npos) return executable_file(name) ? name : std::string();
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "/bin:/usr/bin";
  int why = ENOENT;
  for (;;) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, colon));
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (executable_file(file)) return file;
    if (errno == EACCES) why = EACCES;
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  errno = why;
  return {};
}

}  // namespace tutti::tools
