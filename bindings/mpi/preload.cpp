// The preload library. It is also loaded into shells and launchers, so it runs no code when it is loaded, and links
// only the C library. It looks up MPI and tutti when the program initialises MPI.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bindings/mpi/initialization.hpp"
#include "bindings/mpi/interception.hpp"
#include "transports/mpi/family.hpp"

using namespace tutti::preload;

namespace tutti::preload {
namespace {

std::atomic<const Engine*> the_engine{nullptr};

void say(const char* what, const char* more) noexcept {
  char text[1024];
  const int bytes = std::snprintf(text, sizeof text, "tutti: %s%s\n", what, more);
  if (bytes > 0) static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
}

/// Opens the library that makes tutti's calls, in the folder of this library. Prints the reason if that fails.
void* open_beside() noexcept {
  Dl_info self{};
  char path[4096] = "";
  if (dladdr(reinterpret_cast<void*>(&open_beside), &self) != 0 && self.dli_fname != nullptr) {
    const char* const slash = std::strrchr(self.dli_fname, '/');
    const int folder = slash != nullptr ? static_cast<int>(slash + 1 - self.dli_fname) : 0;
    std::snprintf(path, sizeof path, "%.*slibtutti_mpi_calls-%s.so", folder, self.dli_fname,
                  mpi::is_open_mpi ? "openmpi" : "mpich");
  }
  void* const opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) say("collectives stay with MPI, since a part of tutti cannot be opened: ", dlerror());
  return opened;
}

}  // namespace

void give_up(const char* what, const char* more) noexcept {
  say(what, more);
  _exit(EXIT_FAILURE);
}

void begin() noexcept {
  if constexpr (mpi::is_open_mpi) find_fortran_addresses();
  void* const library = mpi_library();
  const mpi::Handles handles = mpi::predefined_handles(library);
  int size = 1;
  if (call_original<"PMPI_Comm_size">(handles.world, &size) != MPI_SUCCESS || size < 2) return;

  void* const opened = open_beside();
  const auto make = opened != nullptr ? reinterpret_cast<Begin>(dlsym(opened, begin_name)) : nullptr;
  const int here = make != nullptr;
  int everywhere = 0;
  const auto min = handles.ops[static_cast<std::size_t>(Op::min)];
  const auto type = handles.types[static_cast<std::size_t>(DType::i32)];
  call_original<"PMPI_Allreduce">(static_cast<const void*>(&here), static_cast<void*>(&everywhere), 1, type, min,
                                  handles.world);
  if (everywhere) the_engine.store(make(library), std::memory_order_release);
}

void check_family() noexcept {
  void* const library = mpi_library();
  // The handles of MPI's standard ABI differ from those of both MPI families, so they cannot be passed on.
  if (library == RTLD_DEFAULT && dlopen("libmpi_abi.so.0", RTLD_NOW | RTLD_NOLOAD) != nullptr)
    give_up("this program uses MPI's standard interface (libmpi_abi.so), for which there is no preload; run it without",
            " one, or build it against libmpi.so");
  if ((dlsym(library, "ompi_mpi_comm_world") != nullptr) == mpi::is_open_mpi) return;
  give_up(mpi::is_open_mpi ? "this program uses MPICH, or an MPI of its kind; preload libtutti_mpi_preload-mpich.so"
                           : "this program uses Open MPI; preload libtutti_mpi_preload-openmpi.so",
          ", not the one of the other family; under tutti run --preload-mpi, name its mpiexec by --mpiexec");
}

void end() noexcept {
  if (const Engine* const mine = the_engine.exchange(nullptr)) mine->finalize();
}

const Engine* engine() noexcept { return the_engine.load(std::memory_order_acquire); }

void* mpi_library() noexcept {
  for (const char* soname : mpi::sonames)
    if (void* const found = dlopen(soname, RTLD_NOW | RTLD_NOLOAD)) return found;
  return RTLD_DEFAULT;
}

void* find_function(const char* name) noexcept {
  void* found = dlsym(mpi_library(), name);
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) give_up("the MPI of this program has no function ", name);
  return found;
}

void* find_next_function(const char* name) noexcept {
  void* found = dlsym(RTLD_NEXT, name);
  for (const char* soname : mpi::fortran_sonames)  // if only a module of the program links these libraries
    if (void* const library = found == nullptr ? dlopen(soname, RTLD_NOW | RTLD_NOLOAD) : nullptr)
      found = dlsym(library, name);
  if (found == nullptr) give_up("the MPI of this program has no function of Fortran ", name);
  return found;
}

}  // namespace tutti::preload

extern "C" {

int MPI_Init(int* argc, char*** argv) {
  return initialize([&] { return call_original<"PMPI_Init">(argc, argv); });
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  return initialize([&] { return call_original<"PMPI_Init_thread">(argc, argv, required, provided); });
}
int MPI_Finalize() {
  end();
  return call_original<"PMPI_Finalize">();
}

}  // extern "C"
