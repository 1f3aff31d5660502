// Creates, maps and allocates from an arena.
#include "transports/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transports/shm/segment.hpp"
#include "transports/shm/settings.hpp"
#include "tutti/fork.hpp"
#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t least_arena = std::size_t{64} << 20;
// Smaller sizes skip the check of free memory, which takes 0.1 ms.
constexpr std::size_t worth_asking = std::size_t{4} << 20;

constexpr std::size_t mappable = std::size_t{1} << 46;  // half of a process's address space

// All memory that could ever be shared, if `ranks` mappings of that size fit.
std::size_t wanted_bytes(std::size_t ranks) noexcept {
  struct sysinfo host {};
  std::size_t bytes = ::sysinfo(&host) == 0 ? std::size_t{host.totalram} * host.mem_unit : least_arena;
  bytes = std::min(bytes, mappable / ranks);
  rlimit files{};  // growing the file beyond the limit would raise SIGXFSZ
  if (::getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
    bytes = std::min<std::size_t>(bytes, files.rlim_cur);
  return bytes / page_bytes() * page_bytes();
}

}  // namespace

Descriptor make_arena_file(const Settings& settings, std::size_t ranks, std::string& why) {
  const std::size_t bytes = wanted_bytes(ranks);
  if (bytes < least_arena) {
    why = "files may not be larger than " + size_text(bytes) + " here (ulimit -f)";
    return {};
  }
  int error = 0;
  Descriptor file = memfd_works(error) ? Descriptor(::memfd_create("tutti-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING))
                                       : make_nameless_file(settings.of(shm_dir));
  if (!file || ::ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0) {
    why = "a sparse file of " + size_text(bytes) + " cannot be made (" + std::strerror(errno) + ")";
    return {};
  }
  ::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);  // sealing fails for a plain file
  return file;
}

ArenaMap::ArenaMap(int fd, Of whose) : generation_(fork_generation()) {
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0 || info.st_size <= 0) return;
  const auto bytes = static_cast<std::size_t>(info.st_size);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) return;
  if (whose == Of::peer) ::madvise(memory, bytes, MADV_DONTFORK);
  ::madvise(memory, bytes, MADV_DONTDUMP);
  base_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

ArenaMap::ArenaMap(ArenaMap&& other) noexcept { *this = std::move(other); }

ArenaMap& ArenaMap::operator=(ArenaMap&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(generation_, other.generation_);
  return *this;
}

ArenaMap::~ArenaMap() {
  if (base_ && generation_ == fork_generation()) ::munmap(base_, bytes_);
}

Arena::Arena(Descriptor file, ArenaMap map)
    : file_(std::move(file)), map_(std::move(map)), generation_(fork_generation()) {
  free_.emplace(0, map_.bytes());
}

std::size_t Arena::take(std::size_t bytes) {
  if (generation_ != fork_generation())
    refuse_allocation(bytes, "this process was forked, and the memory is its parent's");
  if (bytes >= worth_asking && bytes > available_memory()) refuse_allocation(bytes, std::strerror(ENOMEM));
  const std::size_t length = whole_pages(bytes);
  std::size_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(free_, [&](const auto& gap) { return gap.second >= length; });
    if (found == free_.end())
      refuse_allocation(bytes, "no gap in the " + size_text(map_.bytes()) + " that can be shared");
    offset = found->first;
    const std::size_t rest = found->second - length;
    free_.erase(found);
    if (rest > 0) free_.emplace(offset + length, rest);
    taken_.emplace(offset, length);
  }
  if (const int error = reserve_pages(file_.fd(), offset, map_.at(offset), length)) {
    give_back(offset);
    refuse_allocation(bytes, std::string("reserving its pages: ") + std::strerror(error));
  }
  return offset;
}

void Arena::give_back(std::size_t offset) noexcept {
  // In a forked child the memory is the parent's, and the descriptor is closed.
  if (generation_ != fork_generation()) return;
  const std::lock_guard lock(mutex_);
  const auto found = taken_.find(offset);
  if (found == taken_.end()) return;  // quarantined
  const std::size_t length = found->second;
  if (::fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(length)) != 0)
    std::memset(map_.at(offset), 0, length);  // the file system does not support holes
  auto node = taken_.extract(found);          // moves the node, so that freeing never allocates
  auto gap = free_.insert(std::move(node)).position;
  if (const auto next = std::next(gap); next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  const auto before = std::prev(gap);
  if (before->first + before->second != gap->first) return;
  before->second += gap->second;
  free_.erase(gap);
}

void Arena::hollow(std::size_t offset, std::size_t bytes) noexcept {
  if (generation_ != fork_generation() || bytes % page_bytes() != 0) return;
  ::fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

void Arena::fill(std::size_t offset, std::size_t bytes) {
  if (bytes % page_bytes() != 0) return;
  if (const int error = reserve_pages(file_.fd(), offset, map_.at(offset), bytes))
    refuse_allocation(bytes, std::string("reserving its pages: ") + std::strerror(error));
}

void Arena::quarantine(const std::byte* data) noexcept {
  const std::lock_guard lock(mutex_);
  const auto offset = map_.offset_of(data, 1);
  auto found = offset ? taken_.upper_bound(*offset) : taken_.begin();
  if (found == taken_.begin()) return;
  --found;
  if (*offset < found->first + found->second) taken_.erase(found);
}

std::shared_ptr<void> Arena::allocate(std::size_t bytes) {
  const std::size_t offset = take(bytes);
  return {map_.at(offset), [self = shared_from_this(), offset](void* /*memory*/) { self->give_back(offset); }};
}

}  // namespace tutti::shm
