// Creates, seals and maps the segment.
#include "transports/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "transports/shm/settings.hpp"
#include "tutti/fork.hpp"
#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {
namespace {

constexpr std::uint64_t magic = 0x316d687369747475;
constexpr std::size_t largest_ring = std::size_t{1} << 20;

struct Header {
  std::uint64_t magic_word = magic;
  std::uint64_t ranks = 0;
  std::uint64_t capacity = 0;
  alignas(line_bytes) std::atomic<std::uint32_t> poison_changes{0};
};

std::size_t round_up(std::size_t value, std::size_t to) noexcept { return (value + to - 1) / to * to; }

[[noreturn]] void does_not_fit(std::size_t bytes, const std::string& where, int error) {
  throw Error(Code::resource, "the segment of " + size_text(bytes) + " does not fit in " + where + " (" +
                                  std::strerror(error) +
                                  "): make room there, set TUTTI_SHM_BYTES lower or TUTTI_SHM_DIR elsewhere");
}

// Reserves the pages of a file now, so that a shortage is an error here and not a SIGBUS later.
void reserve(int fd, std::size_t bytes, const std::string& where) {
  if (const int error = reserve_file(fd, 0, bytes)) does_not_fit(bytes, where, error);
}

Descriptor make_memfd(std::size_t bytes) {
  Descriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw Error(Code::resource, std::string("memfd_create: ") + std::strerror(errno));
  const std::uint64_t available = available_memory();
  const std::string where = "memory, of which " + size_text(available) + " are available";
  if (bytes > available) does_not_fit(bytes, where, ENOMEM);
  // The pages are allocated at the first write: a memfd has no limit of its own.
  if (::ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0) does_not_fit(bytes, where, errno);
  if (::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw Error(Code::resource, std::string("the segment cannot be sealed: ") + std::strerror(errno));
  return file;
}

Descriptor make_file(std::size_t bytes, const std::string& folder) {
  Descriptor file = make_nameless_file(folder);
  if (!file)
    throw Error(Code::resource, "memfd_create is refused here and no file can be made in " + folder + " (" +
                                    std::strerror(errno) + "): set TUTTI_SHM_DIR to a folder that can be written");
  reserve(file.fd(), bytes, folder);
  return file;
}

}  // namespace

std::size_t Layout::slots_at() const noexcept { return round_up(sizeof(Header), line_bytes); }
std::size_t Layout::lines_at() const noexcept {
  return round_up(slots_at() + (ranks + PoisonTable::shared_slots) * sizeof(PoisonSlot), line_bytes);
}
std::size_t Layout::indices_at() const noexcept { return lines_at() + ranks * sizeof(RankLine); }
std::size_t Layout::rings_at() const noexcept {
  return round_up(indices_at() + std::size_t{ranks} * ranks * sizeof(RingIndices), page_bytes());
}
std::size_t Layout::ring_at(int from, int to) const noexcept {
  const auto row = static_cast<std::size_t>(from) * (ranks - 1);
  return rings_at() + (row + static_cast<std::size_t>(to < from ? to : to - 1)) * capacity;
}
std::size_t Layout::bytes() const noexcept { return rings_at() + std::size_t{ranks} * (ranks - 1) * capacity; }

Layout plan_layout(const Settings& settings, int ranks) {
  Layout layout{static_cast<std::uint32_t>(ranks), page_bytes()};
  const auto budget = static_cast<std::size_t>(std::max<std::int64_t>(settings.of(shm_bytes), 0));
  if (layout.bytes() > budget)
    throw Error(Code::resource, std::to_string(ranks) + " ranks on one host need a segment of " +
                                    size_text(layout.bytes()) + " at least, but TUTTI_SHM_BYTES allows " +
                                    size_text(budget) + ": set it to " + std::to_string(layout.bytes()) + " or more");
  const std::size_t pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(std::max(ranks - 1, 1));
  const std::size_t share = (budget - layout.rings_at()) / pairs;
  layout.capacity = std::bit_floor(std::min(share, std::max(largest_ring, page_bytes())));
  return layout;
}

bool memfd_works(int& error) noexcept {
  if (std::getenv("TUTTI_TEST_NO_MEMFD")) {
    error = EPERM;
    return false;
  }
  const int fd = ::memfd_create("tutti-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  error = fd < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

Descriptor make_nameless_file(const std::string& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;  // not every file system supports unnamed files
  std::string name = folder + "/tutti-XXXXXX";
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

Descriptor make_segment(const Settings& settings, int ranks) {
  const Layout layout = plan_layout(settings, ranks);
  int error = 0;
  Descriptor file = memfd_works(error) ? make_memfd(layout.bytes()) : make_file(layout.bytes(), settings.of(shm_dir));
  Header header;
  header.ranks = layout.ranks;
  header.capacity = layout.capacity;
  if (::pwrite(file.fd(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    throw Error(Code::resource, std::string("the segment cannot be written: ") + std::strerror(errno));
  return file;
}

Segment::Segment(int fd, int ranks, int self) : self_(self), generation_(fork_generation()) {
  Header header;
  struct stat info {};
  const bool whole = ::pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
  layout_ = {static_cast<std::uint32_t>(ranks), header.capacity};
  if (!whole || header.magic_word != magic || header.ranks != layout_.ranks || !std::has_single_bit(header.capacity) ||
      header.capacity % page_bytes() != 0 || ::fstat(fd, &info) != 0 ||
      static_cast<std::size_t>(info.st_size) < layout_.bytes())
    throw Error(Code::protocol, "the shared segment is not one of this version: do all ranks run the same tutti?");
  void* const common = ::mmap(nullptr, layout_.rings_at(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (common == MAP_FAILED)
    throw Error(Code::resource, std::string("the shared segment cannot be mapped (") + std::strerror(errno) +
                                    "): raise the limit on address space (ulimit -v)");
  common_ = static_cast<std::byte*>(common);
  ::madvise(common_, layout_.rings_at(), MADV_DONTFORK);
  map_rings(fd);
}

void Segment::map_rings(int fd) {
  const std::size_t bytes = std::size_t{layout_.ranks} * 4 * capacity();
  void* const space = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool mapped = space != MAP_FAILED;
  if (mapped) rings_ = static_cast<std::byte*>(space);
  const int ranks = static_cast<int>(layout_.ranks);
  for (int peer = 0; mapped && peer < ranks; ++peer) {
    if (peer == self_) continue;
    for (const bool outgoing : {true, false}) {
      const auto at = static_cast<off_t>(outgoing ? layout_.ring_at(self_, peer) : layout_.ring_at(peer, self_));
      std::byte* const twice = mirrored(peer, outgoing);
      for (std::byte* half : {twice, twice + capacity()})
        mapped = mapped && ::mmap(half, capacity(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, at) == half;
    }
  }
  if (!mapped) {
    const int error = errno;
    release();
    throw Error(Code::resource, std::string("the rings in shared memory cannot be mapped (") + std::strerror(error) +
                                    "): raise the limits on address space (ulimit -v) and vm.max_map_count");
  }
  ::madvise(rings_, bytes, MADV_DONTFORK);
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  release();
  layout_ = other.layout_;
  self_ = other.self_;
  generation_ = other.generation_;
  common_ = std::exchange(other.common_, nullptr);
  rings_ = std::exchange(other.rings_, nullptr);
  return *this;
}

Segment::~Segment() { release(); }

void Segment::release() noexcept {
  // In a forked child nothing is mapped at this address, or something else is.
  const bool ours = generation_ == fork_generation();
  if (ours && common_) ::munmap(common_, layout_.rings_at());
  if (ours && rings_) ::munmap(rings_, std::size_t{layout_.ranks} * 4 * capacity());
  common_ = rings_ = nullptr;
}

RankLine& Segment::line(int rank) noexcept { return reinterpret_cast<RankLine*>(common_ + layout_.lines_at())[rank]; }

PoisonTable Segment::poison() noexcept {
  auto* const header = reinterpret_cast<Header*>(common_);
  auto* const slots = reinterpret_cast<PoisonSlot*>(common_ + layout_.slots_at());
  return {header->poison_changes, {slots, layout_.ranks + PoisonTable::shared_slots}, static_cast<int>(layout_.ranks)};
}

RingIndices& Segment::indices(int from, int to) noexcept {
  auto* const all = reinterpret_cast<RingIndices*>(common_ + layout_.indices_at());
  return all[static_cast<std::size_t>(from) * layout_.ranks + static_cast<std::size_t>(to)];
}

std::byte* Segment::mirrored(int peer, bool outgoing) noexcept {
  return rings_ + (static_cast<std::size_t>(peer) * 2 + (outgoing ? 0 : 1)) * 2 * capacity();
}

}  // namespace tutti::shm
