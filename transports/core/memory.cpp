// Allocates shared memory by memfd and reserves its pages first.
#include "tutti/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "transports/core/chaos.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/status.hpp"

namespace tutti {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : unlimited;  // "max" is no number
}

std::uint64_t host_memory() {
  std::ifstream file("/proc/meminfo");
  std::uint64_t total = 0;
  bool known = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kib = 0;
    if (!(words >> key >> kib) || (key != "MemAvailable:" && key != "SwapFree:")) continue;
    known = known || key == "MemAvailable:";
    total += kib * 1024;
  }
  return known ? total : unlimited;
}

// File cache counts as used by the cgroup, but is reclaimed on demand.
std::uint64_t reclaimable(const std::string& folder) {
  std::ifstream file(folder + "/memory.stat");
  std::uint64_t total = 0, value = 0;
  for (std::string key; file >> key >> value;)
    if (key == "inactive_file" || key == "active_file") total += value;
  return total;
}

// Bytes left by the cgroup (version 2) and its ancestors; a container sees its own group at the root.
std::uint64_t cgroup_memory() {
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) path = line.substr(3);
  std::uint64_t least = unlimited;
  for (;;) {
    const std::string folder = "/sys/fs/cgroup" + (path == "/" ? "" : path);
    const std::uint64_t limit = number_in(folder + "/memory.max");
    const std::uint64_t used = limit == unlimited ? 0 : number_in(folder + "/memory.current");
    const std::uint64_t kept = used - std::min(used, limit == unlimited ? 0 : reclaimable(folder));
    if (limit != unlimited && used != unlimited) least = std::min(least, limit > kept ? limit - kept : 0);
    if (path.size() <= 1) return least;
    path.resize(path.find_last_of('/'));
  }
}

[[noreturn]] void fail(std::size_t bytes, const char* step, int error) {
  refuse_allocation(bytes, std::string(step) + ": " + std::strerror(error));
}

// qemu's user-mode emulation, which runs containers for other processors, accepts MADV_POPULATE_WRITE and ignores it.
bool last_page_is_there(void* memory, std::size_t bytes) noexcept {
  unsigned char resident = 0;
  char* const last = static_cast<char*>(memory) + (bytes - 1) / page_bytes() * page_bytes();
  return ::mincore(last, page_bytes(), &resident) != 0 || (resident & 1U) != 0;
}

}  // namespace

std::size_t page_bytes() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

std::size_t whole_pages(std::size_t bytes) noexcept {
  return std::max<std::size_t>(1, (bytes + page_bytes() - 1) / page_bytes()) * page_bytes();
}

void refuse_allocation(std::size_t bytes, const std::string& why) {
  throw Error(Code::resource, "allocating " + size_text(bytes) + " of shared memory failed (" + why + "; " +
                                  size_text(available_memory()) + " available): ask for less, or free memory first");
}

// Reserves pages by touching them, because pages that fallocate reserves are never huge.
int reserve_pages(int fd, std::size_t offset, void* memory, std::size_t bytes) noexcept {
  if (system_faults::refuses_memory()) return ENOMEM;
  if (bytes >= huge_page) ::madvise(memory, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) {
    if (last_page_is_there(memory, bytes)) return 0;
  } else if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) {
    return errno == EFAULT ? ENOMEM : errno;  // EFAULT: touching would have raised SIGBUS
  }
#endif
  // The kernel is old, emulated or made to refuse (seccomp). For anonymous memory, available_memory() was checked.
  return fd >= 0 ? reserve_file(fd, offset, bytes) : 0;
}

int reserve_file(int fd, std::size_t offset, std::size_t bytes) noexcept {
  if (system_faults::refuses_memory()) return ENOMEM;
  int error;
  do {
    error = system_faults::is_on() && system_faults::interrupts()
                ? EINTR
                : ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

std::shared_ptr<void> allocate_shared(std::size_t bytes) {
  if (bytes > available_memory()) fail(bytes, "checking", ENOMEM);
  const std::size_t length = whole_pages(bytes);

  const Descriptor file(::memfd_create("tutti-memory", MFD_CLOEXEC));
  if (file && ::ftruncate(file.fd(), static_cast<off_t>(length)) != 0) fail(bytes, "ftruncate", errno);
  const int flags = MAP_SHARED | (file ? 0 : MAP_ANONYMOUS);
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, file.fd(), 0);
  if (memory == MAP_FAILED) fail(bytes, "mmap", errno);
  std::shared_ptr<void> owner(memory, [length](void* address) { ::munmap(address, length); });
  if (const int error = reserve_pages(file.fd(), 0, memory, length)) fail(bytes, "reserving its pages", error);
  return owner;
}

std::uint64_t available_memory() noexcept {
  try {
    return std::min(host_memory(), cgroup_memory());
  } catch (...) {
    return unlimited;  // out of memory for a line of text: the next allocation reports it
  }
}

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[48];
  const bool whole = value == static_cast<double>(static_cast<std::uint64_t>(value)) || value >= 100;
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace tutti
