// `tutti doctor`: says what holds up a job, and who is to blame.
#include "tools/command.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "collectives/doctor/clocks.hpp"
#include "collectives/doctor/opinion.hpp"
#include "tools/doctor/host_checks.hpp"
#include "tools/doctor/launchers.hpp"
#include "tools/doctor/report.hpp"
#include "tools/options.hpp"
#include "tutti/clock.hpp"

namespace tutti::tools {
namespace {

constexpr int exit_something_wrong = 1;

struct Request {
  std::string which, perfetto;
  bool json = false, watch = false;
  double patience = 1, every = 2;
};

bool is_folder(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::is_directory(text, ignored);
}

std::string none_found(const std::string& which) {
  if (which.empty())
    return "no process of this user on this host records calls of tutti: start `tutti doctor` on a host of the job, as "
           "the user who runs it, and not with TUTTI_RECORDER=off";
  if (is_folder(which))
    return fmt::format("there is no recording in '{}': give the folder that TUTTI_RECORDER named in the job", which);
  return fmt::format(
      "no job on this host has a name that begins with '{0}', that program, or a process with that number; "
      "`tutti doctor` alone shows all jobs",
      which);
}

Examined examine(const Request& request, Examined one) {
  if (one.hosts.empty()) doctor::align(one.patients, doctor::clocks_of(one.patients, {}));
  one.diagnosis =
      doctor::diagnose(one.patients, doctor::real_now(), static_cast<doctor::Time>(request.patience * 1e9), one.hosts);
  return one;
}

/// Asks the launchers of the jobs on several hosts. `found` are the jobs that have ranks on this host.
std::vector<Account> ask_about(const std::string& which, const std::vector<doctor::FoundJob>& found) {
  if (is_folder(which)) return {};
  return ask_launchers([&](const std::string& job, pid_t launcher) {
    return job.starts_with(which) || std::to_string(launcher) == which ||
           std::ranges::count(found, job, &doctor::FoundJob::name) > 0;
  });
}

/// Says that a launcher does not answer, if it is asked for, or if it may be that of a job that is found here.
void tell_of_silence(const Account& account, const std::string& which) {
  const std::string who =
      fmt::format("the launcher, process {}, does not answer; look whether it is stopped", account.launcher);
  if (which == std::to_string(account.launcher))
    throw Error(Code::invalid, who + ". `tutti doctor` alone shows the ranks of its host");
  if (!account.job.empty() || which.empty())
    fmt::print(stderr, "tutti doctor: {}. Only the ranks of this host are seen of its job\n", who);
}

std::vector<Examined> examine(const Request& request) {
  std::vector<Examined> examined;
  std::vector<doctor::FoundJob> found = doctor::find_jobs(request.which);
  for (Account& account : ask_about(request.which, found)) {
    if (account.hosts.empty()) {
      tell_of_silence(account, request.which);
      continue;
    }
    std::vector<doctor::Patient> here;
    for (doctor::FoundJob& job : found)
      if (job.name == account.job) here = std::move(job.patients);
    std::erase_if(found, [&](const doctor::FoundJob& job) { return job.name == account.job; });
    if (std::ranges::any_of(account.hosts, [](const auto& host) { return host.here && !host.answers; }))
      doctor::look_at(here, doctor::Look::at_places);
    std::vector<doctor::Patient> patients = joined(account, std::move(here));
    examined.push_back(examine(request, {account.job, std::move(patients), {}, std::move(account.hosts)}));
  }
  for (doctor::FoundJob& job : found) {
    doctor::look_at(job.patients, doctor::Look::at_places);
    const std::string stopped = doctor::stopped_helpers(job);
    examined.push_back(examine(request, {job.name, std::move(job.patients), {}}));
    if (stopped.empty()) continue;
    std::string& context = examined.back().diagnosis.context;
    context += (context.empty() ? "" : " ") + stopped;
  }
  std::ranges::sort(examined, {}, &Examined::job);
  return examined;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text) || !file.flush())
    throw Error(Code::resource, fmt::format("cannot write '{}': name a file that can be written", path));
}

int tell(const Request& request, const std::vector<Examined>& jobs) {
  if (!request.perfetto.empty()) {
    write_file(request.perfetto, as_trace(jobs));
    fmt::print(stderr, "tutti doctor: wrote {}: open it at https://ui.perfetto.dev\n", request.perfetto);
  }
  if (request.json) {
    fmt::print("{}", as_json(jobs));
  } else {
    for (std::size_t i = 0; i < jobs.size(); ++i) fmt::print("{}{}", i == 0 ? "" : "\n", as_text(jobs[i]));
  }
  std::fflush(stdout);
  const bool wrong = std::ranges::any_of(
      jobs, [](const Examined& job) { return job.diagnosis.finding.kind < doctor::Finding::Kind::slow; });
  return wrong ? exit_something_wrong : 0;
}

int run(const std::vector<std::string>& arguments) {
  Request request;
  CLI::App app(
      "tutti doctor [JOB|PROGRAM|PID|DIR] [flags]\n"
      "Says what holds up a job, which rank is to blame, and in which call; without a name, of all jobs of this user "
      "on this host.\nExit code: 0 if nothing is stuck, 1 if something is wrong.",
      "tutti doctor");
  app.add_option(
      "which", request.which,
      "the beginning of a job's name, its program, the number of one of its processes, or a folder of recordings");
  app.add_option("--patience", request.patience, "seconds after which a call counts as stuck (1)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--watch", request.watch, "look again and again");
  app.add_option("--every", request.every, "seconds between two looks (2)")->check(CLI::Range(0.05, 1e6));
  app.add_flag("--json", request.json, "print JSON: the finding, and each rank with its last calls");
  app.add_option("--perfetto", request.perfetto, "write the timelines of all ranks to this file, for ui.perfetto.dev");
  std::string hosts;
  auto* const host =
      app.add_option("--host", hosts, "check what this host offers to a job, and the network to others: --host h1,h2")
          ->expected(0, 1);
  bool answers = false;
  app.add_flag("--answer-host-check", answers)->group("");  // what --host starts on other hosts
  Settings settings = Settings::from_environment();
  add_settings(app, settings, "");
  app.footer("--host takes the settings of jobs, too: `tutti info --help` shows them.");
  parse(app, arguments);
  if (answers) return answer_host_check();
  if (!host->empty()) return run_host_checks(split_hosts(hosts), request.json, settings);
  for (;;) {
    const std::vector<Examined> jobs = examine(request);
    if (jobs.empty()) throw Error(Code::invalid, none_found(request.which));
    const int code = tell(request, jobs);
    if (!request.watch) return code;
    std::this_thread::sleep_for(Seconds(request.every));
    if (!request.json) fmt::print("\n");
  }
}

}  // namespace

extern const Command doctor_command = {"say what holds up a job, and which rank is to blame", run};

}  // namespace tutti::tools
