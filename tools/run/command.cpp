// `tutti run`: N ranks of a program on this host.
#include "tools/command.hpp"

#include <fmt/core.h>
#include <sys/random.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/options.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/job.hpp"
#include "transports/core/host.hpp"
#include "transports/core/log.hpp"

namespace tutti::tools {
namespace {

constexpr int most_ranks = 4096;
constexpr int exit_not_found = 127, exit_not_executable = 126;

std::string random_text(std::size_t bytes) {
  std::string raw(bytes, '\0');
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t n = getrandom(raw.data() + have, bytes - have, 0);
    if (n < 0 && errno != EINTR) throw Error(Code::resource, std::string("getrandom: ") + std::strerror(errno));
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  std::string text;
  for (const char c : raw) text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

/// A flag becomes the variable that means the same to the ranks.
void add_variables(Job& job, const Settings& settings) {
  for (const SettingInfo& row : setting_table()) {
    const auto source = settings.sources.find(row.key);
    if (source == settings.sources.end() || source->second != "flag") continue;
    std::string variable = "TUTTI_";
    for (const char c : row.key) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    job.variables[variable] = value_text(settings, row);
  }
  job.variables.try_emplace("TUTTI_SECRET", random_text(32));
  // Unique in any case: the job's processes are known by it.
  std::string& name = job.variables["TUTTI_JOB"];
  name += (name.empty() ? "" : "-") + random_text(16);
  job.id = name;
  if (!std::getenv("OMP_NUM_THREADS")) {
    const std::string threads = std::to_string(std::max(1, usable_cores() / job.ranks));
    job.variables["OMP_NUM_THREADS"] = threads;
    log(LogLevel::info, "OMP_NUM_THREADS is not set: each rank gets " + threads);
  }
}

int run(const std::vector<std::string>& arguments) {
  Job job;
  Settings settings = Settings::from_environment();
  CLI::App app(
      "tutti run -np N [flags] PROGRAM [ARGUMENTS...]\nStarts N ranks of a program on this host and ends them "
      "together.",
      "tutti run");
  app.add_option("-n,--np", job.ranks, "how many ranks")->required()->check(CLI::Range(1, most_ranks));
  app.add_flag("--tag-output", job.tag_output,
               "put \"[rank] \" in front of every line of output (beyond 64 KiB a line is cut)");
  app.add_option("--grace", job.grace, "seconds that the others have to end by themselves once a rank has failed (2)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--time-limit", job.time_limit, "seconds until all ranks are ended, with exit code 124 (none)")
      ->check(CLI::Range(0.0, 1e9));
  add_settings(app, settings);
  job.words = parse_before_program(app, arguments);
  if (job.words.empty()) usage_error(app, "which program? ");
  if (const auto level = parse_log_level(settings.log)) set_log_level(*level);
  job.file = find_executable(job.words.front());
  if (job.file.empty()) {
    const int why = errno;
    fmt::print(stderr, "tutti run: cannot run '{}': {}\n", job.words.front(),
               why == ENOENT ? "no such program here or on PATH" : std::strerror(why));
    return why == ENOENT || why == ENOTDIR ? exit_not_found : exit_not_executable;
  }
  add_variables(job, settings);
  return run_job(job);
}

}  // namespace

extern const Command run_command = {"start N ranks of a program on this host", run};

}  // namespace tutti::tools
