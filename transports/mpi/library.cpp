// Loading MPI at run time: the module does not link it, so one build works with every MPI of the family.
#include "transports/mpi/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <span>
#include <sstream>

#include "transports/mpi/family.hpp"
#include "transports/mpi/settings.hpp"

namespace tutti::mpi {
namespace {

namespace fs = std::filesystem;

bool is_ours(void* handle) { return (dlsym(handle, "ompi_mpi_comm_world") != nullptr) == is_open_mpi; }

/// Notes the file name of an MPI among the loaded libraries.
int note_if_mpi(dl_phdr_info* info, std::size_t, void* found) {
  const std::string name = fs::path(info->dlpi_name).filename();
  if (!name.starts_with("libmpi.so") && !name.starts_with("libmpich.so")) return 0;
  *static_cast<std::string*>(found) = info->dlpi_name;
  return 1;
}

/// The MPI loaded by the program, if any. Its symbols are made global, since its plug-ins may need them.
Library in_process() {
  Library found;
  if (dl_iterate_phdr(note_if_mpi, &found.path) != 0) {
    found.handle = dlopen(found.path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  } else if (dlsym(RTLD_DEFAULT, "MPI_Init_thread") != nullptr) {
    found.path = "the program";
    found.handle = dlopen(nullptr, RTLD_NOW);
  }
  return found;
}

pid_t parent_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::ostringstream text;
  text << file.rdbuf();
  const std::size_t end = text.str().rfind(')');
  std::istringstream rest(end == std::string::npos ? std::string() : text.str().substr(end + 1));
  char state = 0;
  pid_t parent = 0;
  rest >> state >> parent;
  return parent;
}

/// The MPI library in the installation of the launcher that started this process; empty if there is none. A launcher
/// and a library from different installations often do not work together.
std::string beside_launcher() {
  constexpr std::string_view launchers[] = {"mpirun", "mpiexec", "orterun", "orted", "prte", "hydra"};
  constexpr int generations = 8;
  pid_t process = getppid();
  for (int i = 0; i < generations && process > 1; ++i, process = parent_of(process)) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/" + std::to_string(process) + "/exe", error);
    const std::string name = program.filename();
    if (error || std::ranges::none_of(launchers, [&](auto one) { return name.find(one) != std::string::npos; }))
      continue;
    for (const char* soname : sonames)
      for (const char* folder : {"lib", "lib64", "lib/release"})
        if (const fs::path file = program.parent_path().parent_path() / folder / soname; fs::exists(file, error))
          return file;
  }
  return {};
}

std::string last_problem() {
  const char* text = dlerror();
  return text ? text : "no reason given";
}

Library open(const Settings& settings) {
  Library found = in_process();
  if (found.handle != nullptr) return found;
  std::vector<std::string> files;
  const std::string named = settings.of(mpi_library);
  if (!named.empty()) {
    files.push_back(named);
  } else {
    if (const std::string file = beside_launcher(); !file.empty()) files.push_back(file);
    files.insert(files.end(), std::begin(sonames), std::end(sonames));
  }
  for (const std::string& file : files) {
    found.path = file;
    found.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (found.handle != nullptr) {
      found.missing.clear();
      return found;
    }
    found.missing += (found.missing.empty() ? "" : "; ") + last_problem();
  }
  const std::string library = "library of " + std::string(family);
  found.missing = named.empty() ? "no " + library + " can be opened (" + found.missing +
                                      "); set TUTTI_MPI_LIBRARY=/path/to/libmpi.so"
                                : "the setting mpi_library names what cannot be opened (" + found.missing +
                                      "); name a " + library + ", or leave the setting out";
  return found;
}

/// Fills a table of functions and records the first one that is missing.
class Taker {
 public:
  explicit Taker(void* handle) : handle_(handle) {}
  template <class Function>
  void operator()(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const noexcept { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

void take_environment(Taker& take, Functions& call) {
  take(call.initialized, "MPI_Initialized");
  take(call.finalized, "MPI_Finalized");
  take(call.init_thread, "MPI_Init_thread");
  take(call.query_thread, "MPI_Query_thread");
  take(call.finalize, "MPI_Finalize");
  take(call.library_version, "MPI_Get_library_version");
  take(call.error_string, "MPI_Error_string");
  take(call.error_class, "MPI_Error_class");
  take(call.comm_rank, "MPI_Comm_rank");
  take(call.comm_size, "MPI_Comm_size");
  take(call.comm_group, "MPI_Comm_group");
  take(call.comm_create_group, "MPI_Comm_create_group");
  take(call.comm_free, "MPI_Comm_free");
  take(call.comm_set_errhandler, "MPI_Comm_set_errhandler");
  take(call.comm_create_keyval, "MPI_Comm_create_keyval");
  take(call.comm_set_attr, "MPI_Comm_set_attr");
  take(call.group_incl, "MPI_Group_incl");
  take(call.group_free, "MPI_Group_free");
}

void take_collectives(Taker& take, Functions& call) {
  take(call.iallreduce, "MPI_Iallreduce");
  take(call.ireduce, "MPI_Ireduce");
  take(call.ibcast, "MPI_Ibcast");
  take(call.iallgather, "MPI_Iallgather");
  take(call.iallgatherv, "MPI_Iallgatherv");
  take(call.ireduce_scatter, "MPI_Ireduce_scatter");
  take(call.ireduce_scatter_block, "MPI_Ireduce_scatter_block");
  take(call.igather, "MPI_Igather");
  take(call.iscatter, "MPI_Iscatter");
  take(call.ialltoall, "MPI_Ialltoall");
  take(call.ialltoallw, "MPI_Ialltoallw");
  take(call.ibarrier, "MPI_Ibarrier");
}

void take_messages(Taker& take, Functions& call) {
  take(call.isend, "MPI_Isend");
  take(call.irecv, "MPI_Irecv");
  take(call.test, "MPI_Test");
  take(call.testsome, "MPI_Testsome");
  take(call.improbe, "MPI_Improbe");
  take(call.imrecv, "MPI_Imrecv");
  take(call.get_count, "MPI_Get_count");
  take(call.type_contiguous, "MPI_Type_contiguous");
  take(call.type_create_struct, "MPI_Type_create_struct");
  take(call.type_commit, "MPI_Type_commit");
  take(call.type_free, "MPI_Type_free");
  take(call.op_create, "MPI_Op_create");
}

Library load(const Settings& settings) {
  Library found = open(settings);
  if (found.handle == nullptr) return found;
  if (!is_ours(found.handle)) {
    found.missing = found.path + " is not of the family of " + std::string(family) +
                    "; name a library of it with TUTTI_MPI_LIBRARY, or leave that out";
    return found;
  }
  Taker take(found.handle);
  take_environment(take, found.call);
  take_collectives(take, found.call);
  take_messages(take, found.call);
  if (!take.missing().empty())
    found.missing = found.path + " has no " + take.missing() + "; an MPI of version 3 or later is needed";
  return found;
}

bool has_any(std::span<const char* const> variables) {
  return std::ranges::any_of(variables, [](const char* name) { return std::getenv(name) != nullptr; });
}

/// True if an mpiexec of this family started this process. Open MPI may run inside a job of Hydra or SLURM, whose
/// variables are then set too.
bool started_by_mpiexec() { return has_any(launch_marks) && (is_open_mpi || !has_any(others_marks)); }

Viability not_started() {
  if (has_any(others_marks))
    return {false,
            "started by " + std::string(others) + " and this is for " + std::string(family) +
                "; start it by that MPI's mpiexec",
            true};
  return {false, "not started by mpiexec: run `mpirun -n 4 PROGRAM`, or `tutti run --backend mpi -np 4 PROGRAM`"};
}

/// Says if MPI can be used: it must not be finalised, and must allow several threads if the program has initialised it.
Viability usable(const Library& mpi) {
  int ended = 0, begun = 0;
  mpi.call.finalized(&ended);
  if (ended) return {false, "this process has finalised MPI already"};
  mpi.call.initialized(&begun);
  if (begun) {
    int level = MPI_THREAD_SINGLE, size = 0;
    mpi.call.query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
      return {false,
              "the program has initialised MPI for one thread only; call MPI_Init_thread() with MPI_THREAD_SERIALIZED "
              "or MPI_THREAD_MULTIPLE"};
    mpi.call.comm_size(predefined_handles(mpi.handle).world, &size);
    if (size > 1) return {};
  }
  return started_by_mpiexec() ? Viability{} : not_started();
}

}  // namespace

const Library& library(const Settings& settings) {
  static std::mutex mutex;
  static Library& found = *new Library;
  const std::lock_guard lock(mutex);
  if (found.handle == nullptr || !found.missing.empty()) found = load(settings);
  return found;
}

Viability viable(const Settings& settings) {
  const Library present = in_process();
  if (present.handle != nullptr && !is_ours(present.handle))
    return {false,
            "this process uses " + present.path + " already, which is not of the family of " + std::string(family)};
  if (present.handle == nullptr && !started_by_mpiexec()) return not_started();
  const Library& mpi = library(settings);
  if (!mpi.missing.empty()) return {false, mpi.missing};
  return usable(mpi);
}

}  // namespace tutti::mpi
