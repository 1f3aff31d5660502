// `tutti run`: starts N ranks of a program, on this host or on a list of hosts.
#include "tools/command.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "tools/options.hpp"
#include "tools/run/environment.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/mpiexec.hpp"
#include "tools/run/program.hpp"
#include "tools/run/ranks.hpp"
#include "tools/run/replacements.hpp"
#include "transports/core/host.hpp"
#include "transports/core/random.hpp"
#include "tutti/log.hpp"

namespace tutti::tools {
namespace {

constexpr int most_ranks = 1 << 20, most_ranks_here = 4096;

std::string random_text(std::size_t bytes) {
  std::string raw(bytes, '\0');
  fill_random(raw.data(), bytes);
  std::string text;
  for (const char c : raw) text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

/// The flags that are not copied unchanged into the job.
struct Request {
  std::string hosts, hostfile;
  std::vector<std::string> exports;
  bool oversubscribe = false;
  std::string map_by = "slot";
  std::string mpiexec;
  bool preload_mpi = false;
  std::string bind = "none";
  std::string elastic;
};

/// Converts flags into the variables that have the same meaning for the ranks.
void add_variables(Job& job, const Settings& settings) {
  for (const SettingInfo& row : setting_table()) {
    const auto source = settings.sources.find(row.key);
    if (source == settings.sources.end() || source->second != "flag") continue;
    std::string variable = "TUTTI_";
    for (const char c : row.key) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    job.variables[variable] = value_text(settings, row);
  }
  // Other hosts get only tutti's own variables of this host's environment, and those named by -x.
  if (!job.hosts.empty()) add_own_variables(job.variables);
  const char* const secret = std::getenv("TUTTI_SECRET");
  job.variables.try_emplace("TUTTI_SECRET", secret && *secret ? secret : random_text(32));
  std::string& name = job.variables["TUTTI_JOB"];  // a random suffix makes the name unique
  name += (name.empty() ? "" : "-") + random_text(16);
  job.mark = random_text(16);
  if (job.hosts.empty() && !std::getenv("OMP_NUM_THREADS")) {
    const std::string threads = std::to_string(job.bind ? 1 : std::max(1, usable_cores() / job.ranks));
    job.variables.try_emplace("OMP_NUM_THREADS", threads);
    log(LogLevel::info, "OMP_NUM_THREADS is not set: each rank gets " + threads);
  }
}

/// Handles -x NAME and -x NAME=VALUE.
void add_exports(Job& job, const Request& request) {
  for (const std::string& text : request.exports) {
    const std::string name = text.substr(0, text.find('='));
    const char* const value = std::getenv(name.c_str());
    if (name.empty() || (name == text && !value))
      throw Error(Code::invalid, fmt::format("-x {}: {}", text,
                                             name.empty() ? "give NAME or NAME=VALUE"
                                                          : "there is no such variable here; give -x NAME=VALUE"));
    job.variables[name] = name == text ? value : text.substr(name.size() + 1);
  }
}

void add_flags(CLI::App& app, Job& job, Request& request) {
  app.add_option("-n,--np", job.ranks, "how many ranks (with hosts: as many as they have slots)")
      ->check(CLI::Range(1, most_ranks));
  app.add_flag("--tag-output", job.tag_output,
               "put \"[rank] \" in front of every line of output (beyond 1 MiB a line is cut)");
  app.add_option(
         "--grace", job.grace,
         "seconds that ranks have to end by themselves once one has failed (2), or SIGTERM or SIGINT has come (30)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--keep-going", job.keep_going,
               "a rank that fails is reported and the others go on; the exit code is still that of the first one");
  app.add_option(
      "--elastic", request.elastic,
      "MIN or MIN:MAX: a rank that fails is replaced, and the job goes on while MIN processes are left; ranks "
      "that join from elsewhere make it MAX at most (-np)");
  app.add_option("--restarts", job.elastic.restarts, "with --elastic: how many replacements there are at most (100)")
      ->check(CLI::Range(0, most_ranks));
  app.add_option("--time-limit", job.time_limit, "seconds until all ranks are ended, with exit code 124 (none)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("-x", request.exports, "a variable for the ranks: NAME, as it is here, or NAME=VALUE")
      ->allow_extra_args(false);
  app.add_option("--bind", request.bind,
                 "core: each rank to one core, the ranks of a host to different ones in turn; none: to nothing (so "
                 "unless given)")
      ->check(CLI::IsMember({"none", "core"}));
  app.add_option("--mpiexec", request.mpiexec,
                 "what starts the ranks where the backend or the transport is mpi (the first on PATH)");
  app.add_flag("--preload-mpi", request.preload_mpi,
               "a program of MPI's: an mpiexec starts it, and its collectives go over tutti");
  const char* const several = "Several hosts";
  app.add_option("-H,--hosts,--host", request.hosts, "hosts and their slots: h1:2,h2:2")->group(several);
  app.add_option("--hostfile,--machinefile", request.hostfile, "a file of lines 'h1 slots=2'")->group(several);
  app.add_flag("--oversubscribe", request.oversubscribe, "more ranks than slots")->group(several);
  app.add_option("--map-by", request.map_by,
                 "slot: consecutive ranks on a host (so unless given); node: one after the other on every host")
      ->check(CLI::IsMember({"slot", "node"}))
      ->group(several);
  app.add_option("--address", job.address, "where the hosts reach this one (the agents try all of its addresses)")
      ->group(several);
  app.add_option("--remote-tutti", job.remote_tutti, "the tutti of the other hosts (the same path as here)")
      ->group(several);
  app.add_option("--fan-out", job.fan_out,
                 "how many hosts this one starts at most; each starts as many of the others, and so on (32)")
      ->check(CLI::Range(2, most_ranks))
      ->group(several);
  app.add_option("--silence", job.silence, "seconds after which a host that says nothing is lost (15)")
      ->check(CLI::Range(0.1, 1e6))
      ->group(several);
}

/// Refuses ':', after which mpirun starts another program. A program with such words of its own must follow "--".
void refuse_several_programs(const CLI::App& app, const Job& job, const std::vector<std::string>& arguments) {
  const std::size_t flags = arguments.size() - job.words.size();
  if (flags > 0 && arguments[flags - 1] == "--") return;
  for (std::size_t i = 1; i < job.words.size(); ++i)
    if (job.words[i - 1] == ":" && is_flag(app, job.words[i]))
      usage_error(app, fmt::format("': {}': one `tutti run` does not start several programs; start a shell script that "
                                   "branches on TUTTI_RANK, or put -- before the program if these words are its own: ",
                                   job.words[i]));
}

/// Sets the hosts and the number of ranks, which defaults to the number of slots.
void choose_hosts(CLI::App& app, Job& job, const Request& request, const Settings& settings) {
  if (!request.hosts.empty() && !request.hostfile.empty())
    usage_error(app, "--hosts and --hostfile both name the hosts; give one of them: ");
  if (!request.hosts.empty()) job.hosts = parse_hosts(request.hosts);
  if (!request.hostfile.empty()) job.hosts = read_hostfile(request.hostfile);
  if (job.hosts.empty()) {
    if (job.ranks == 0) job.ranks = job.elastic.most;
    if (job.ranks == 0 && job.elastic.least > 0)
      usage_error(app, fmt::format("how many ranks? Give -np N, or --elastic {}:N: ", job.elastic.least));
    if (job.ranks == 0) usage_error(app, "how many ranks? Give -np N: ");
    if (job.ranks > most_ranks_here)
      usage_error(app, fmt::format("-np {} is more than the {} ranks that one host starts; name several by --hosts: ",
                                   job.ranks, most_ranks_here));
  } else {
    job.ranks = place_ranks(job.hosts, job.ranks, {request.oversubscribe, request.map_by == "node"});
  }
  job.here.resize(static_cast<std::size_t>(job.ranks));
  std::iota(job.here.begin(), job.here.end(), 0);
  job.remote_start = settings.remote_start;
  job.start_patience = settings.connect_timeout;
}

/// Takes the numbers of --elastic, before choose_hosts(), for which the largest is the number of ranks unless that is
/// given.
void read_elastic(const CLI::App& app, Job& job, const Request& request) {
  if (app.count("--elastic") == 0) {
    if (app.count("--restarts") > 0)
      usage_error(app, "--restarts is for --elastic MIN:MAX; give both, or leave it out: ");
    return;
  }
  const int restarts = job.elastic.restarts;
  job.elastic = parse_elastic(request.elastic);
  job.elastic.restarts = restarts;
  job.keep_going = true;
}

/// Compares --elastic with the number of ranks, and tells the ranks.
void settle_elastic(const CLI::App& app, Job& job) {
  Elastic& elastic = job.elastic;
  if (elastic.least == 0) return;
  if (job.ranks < elastic.least)
    usage_error(app, fmt::format("--elastic needs at least {0} ranks, and there are {1}; give it {1} or less, or more "
                                 "ranks: ",
                                 elastic.least, job.ranks));
  if (elastic.most == 0) elastic.most = job.ranks;
  if (job.ranks > elastic.most)
    usage_error(app, fmt::format("--elastic permits {0} ranks at most, and there are {1}; give it {2}:{1}, or fewer "
                                 "ranks: ",
                                 elastic.most, job.ranks, elastic.least));
  job.variables["TUTTI_ELASTIC"] = fmt::format("{}:{}", elastic.least, elastic.most);
}

void refuse_for_mpiexec(const CLI::App& app, const Job& job) {
  if (!job.hosts.empty())
    usage_error(app,
                "ranks that use MPI on several hosts are started by its own mpiexec: mpirun --host h1:2,h2:2 ... ");
  if (app.count("--grace") > 0)
    usage_error(
        app, "--grace is not for ranks that an mpiexec starts, which ends the others in its own way; leave it out: ");
  if (job.elastic.least > 0)
    usage_error(app, "--elastic is not for ranks that an mpiexec starts, which ends them together; leave it out: ");
  if (job.keep_going)
    usage_error(app, "--keep-going is not for ranks that an mpiexec starts, which ends them together; leave it out: ");
  if (job.bind)
    usage_error(app, "--bind is not for ranks that an mpiexec starts; it has its own way to bind them; leave it out: ");
}

int run(const std::vector<std::string>& arguments) {
  Job job;
  Request request;
  Settings settings = Settings::from_environment();
  CLI::App app(
      "tutti run -np N [flags] PROGRAM [ARGUMENTS...]\ntutti run --hosts h1:2,h2:2 [flags] PROGRAM [ARGUMENTS...]\n"
      "Starts N ranks of a program, on this host or on others, and ends them together.",
      "tutti run");
  add_flags(app, job, request);
  add_settings(app, settings);
  job.words = parse_before_program(app, arguments);
  if (job.words.empty()) usage_error(app, "which program? ");
  if (const auto level = parse_log_level(settings.log)) set_log_level(*level);
  read_elastic(app, job, request);
  choose_hosts(app, job, request, settings);
  settle_elastic(app, job);
  job.bind = request.bind == "core";
  const bool by_mpiexec = wants_mpiexec(settings) || request.preload_mpi;
  if (!by_mpiexec) refuse_several_programs(app, job, arguments);
  if (by_mpiexec) refuse_for_mpiexec(app, job);
  if (!by_mpiexec && !request.mpiexec.empty())
    usage_error(app, "--mpiexec is for --backend mpi, --transport mpi or --preload-mpi: ");
  if (job.hosts.empty()) {
    job.file = find_program(job.words.front());
    if (job.file.empty()) {
      const int why = errno;
      fmt::print(stderr, "tutti run: cannot run '{}': {}\n", job.words.front(),
                 why == ENOENT ? "no such program here or on PATH" : std::strerror(why));
      return why == ENOENT || why == ENOTDIR ? exit_not_found : exit_not_executable;
    }
  }
  add_exports(job, request);
  add_variables(job, settings);
  if (by_mpiexec) become_mpiexec(job, request.mpiexec, request.preload_mpi);
  return run_job(job);
}

}  // namespace

extern const Command run_command = {"start N ranks of a program, here or on other hosts", run};

}  // namespace tutti::tools
