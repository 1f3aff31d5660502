// Finds an mpiexec, composes its command line and environment, and executes it.
#include "tools/run/mpiexec.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "collectives/route/rules.hpp"
#include "tools/run/environment.hpp"
#include "transports/core/host.hpp"
#include "tutti/log.hpp"
#include "tutti/provider/provider.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

bool lists(const std::string& list, std::string_view wanted) {
  const auto words = rules::words(list, ',');
  return std::ranges::find(words, wanted) != words.end();
}

std::string find_mpiexec(const std::string& given) {
  if (!given.empty()) {
    const std::string file = find_executable(given);
    if (file.empty()) throw Error(Code::invalid, fmt::format("--mpiexec {}: no such program here or on PATH", given));
    return file;
  }
  for (const char* name : {"mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.hydra", "mpiexec.mpich"})
    if (const std::string file = find_executable(name); !file.empty()) return file;
  throw Error(Code::resource,
              "the backend mpi needs an mpiexec to start the ranks, and there is none on PATH: install an MPI (Debian: "
              "openmpi-bin, or mpich), name its mpiexec with --mpiexec, or choose another --backend");
}

/// The output of `mpiexec --version`.
std::string version_of(const std::string& mpiexec) {
  const std::string file = fs::absolute(mpiexec);
  if (file.find('\'') != std::string::npos) throw Error(Code::invalid, file + ": no quotes, please");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("'" + file + "' --version 2>&1").c_str(), "re"), pclose);
  std::string text(4096, '\0');
  text.resize(pipe ? fread(text.data(), 1, text.size(), pipe.get()) : 0);
  return text;
}

bool is_open_mpi(const std::string& version) {
  for (const char* mark : {"Open MPI", "OpenRTE", "open-mpi", "PRRTE", "prte"})
    if (version.find(mark) != std::string::npos) return true;
  return false;
}

/// Sets a variable unless the user has set it.
void suggest(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return;
  setenv(name, value, 0);
  log(LogLevel::info, fmt::format("tutti run sets {}={} for Open MPI", name, value));
}

bool has_fabric() {
  std::error_code error;
  return fs::exists("/sys/class/infiniband", error) && !fs::is_empty("/sys/class/infiniband", error);
}

/// The settings of docs/book/9-mpi.md, for Open MPI 4 and 5.
void suggest_for_open_mpi(int ranks) {
  if (geteuid() == 0) {
    suggest("OMPI_ALLOW_RUN_AS_ROOT", "1");
    suggest("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
  }
  if (ranks > usable_cores()) {
    suggest("OMPI_MCA_rmaps_base_oversubscribe", "1");
    suggest("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    suggest("OMPI_MCA_hwloc_base_binding_policy", "none");
    suggest("PRTE_MCA_hwloc_default_binding_policy", "none");
    suggest("OMPI_MCA_mpi_yield_when_idle", "1");
  }
  if (!has_fabric()) suggest("OMPI_MCA_pml", "ob1");
}

/// Prepends this MPI's preload library to LD_PRELOAD.
void add_preload(bool open_mpi) {
  const std::string name = fmt::format("libtutti_mpi_preload-{}.so", open_mpi ? "openmpi" : "mpich");
  const fs::path file = fs::path(library_folder()) / name;
  if (std::error_code error; !fs::exists(file, error))
    throw Error(Code::resource, fmt::format("--preload-mpi: there is no {}; configure with -DTUTTI_WITH_MPI_PRELOAD=ON "
                                            "where that MPI's mpi.h is, and install it beside libtutti",
                                            file.string()));
  const char* const others = std::getenv("LD_PRELOAD");
  setenv("LD_PRELOAD", (others != nullptr ? file.string() + ":" + others : file.string()).c_str(), 1);
}

}  // namespace

bool wants_mpiexec(const Settings& settings) {
  return lists(settings.backend, "mpi") || lists(settings.transport, "mpi");
}

void become_mpiexec(const Job& job, const std::string& mpiexec, bool preload) {
  const std::string file = find_mpiexec(mpiexec);
  const bool open_mpi = is_open_mpi(version_of(file));
  std::vector<std::string> words = {file, "-n", std::to_string(job.ranks)};
  if (job.tag_output) words.emplace_back(open_mpi ? "--tag-output" : "-prepend-rank");
  const std::string limit = std::to_string(static_cast<long>(std::ceil(job.time_limit)));
  if (job.time_limit > 0 && open_mpi) words.insert(words.end(), {"--timeout", limit});
  if (job.time_limit > 0 && !open_mpi) setenv("MPIEXEC_TIMEOUT", limit.c_str(), 1);
  words.push_back(job.file);
  words.insert(words.end(), job.words.begin() + 1, job.words.end());

  for (const char* name :
       {"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE", "TUTTI_JOIN", "TUTTI_ELASTIC"})
    unsetenv(name);
  for (const auto& [name, value] : job.variables) setenv(name.c_str(), value.c_str(), 1);
  if (open_mpi) suggest_for_open_mpi(job.ranks);
  if (preload) add_preload(open_mpi);
  log(LogLevel::info, fmt::format("the ranks are started by {}", file));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(file.c_str(), arguments.data());
  throw Error(Code::resource, fmt::format("{} cannot be executed: {}", file, std::strerror(errno)));
}

}  // namespace tutti::tools
