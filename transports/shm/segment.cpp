// Creates, seals and maps the segment.
#include "transports/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
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

constexpr std::uint64_t magic = 0x326d687369747475;
constexpr std::size_t largest_ring = std::size_t{1} << 20;
constexpr std::size_t least_arena = std::size_t{64} << 20;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t mappable = std::size_t{1} << 45;  // a quarter of a process's address space
constexpr std::size_t unlimited = ~std::size_t{0};

struct Header {
  std::uint64_t magic_word = magic;
  std::uint64_t ranks = 0;
  std::uint64_t capacity = 0;
  std::uint64_t arena = 0;
  std::uint64_t indices_reserved = 0;  // 1: all indices have their memory
  alignas(line_bytes) std::atomic<std::uint32_t> poison_changes{0};
  std::atomic<std::uint32_t> leavers{0};
};

std::size_t round_up(std::size_t value, std::size_t to) noexcept { return (value + to - 1) / to * to; }

// The limit on file sizes in this process. Growing a file beyond it would raise SIGXFSZ.
std::size_t largest_file() noexcept {
  rlimit files{};
  const bool known = ::getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  return known ? std::size_t{files.rlim_cur} : unlimited;
}

std::size_t host_memory() noexcept {
  struct sysinfo host {};
  return ::sysinfo(&host) == 0 ? std::size_t{host.totalram} * host.mem_unit : least_arena;
}

// The largest arenas that fit into a file of `bytes` and into the address space.
std::size_t arena_within(const Layout& layout, std::size_t bytes) noexcept {
  const std::size_t there = std::min(bytes, mappable), begin = layout.arenas_at();
  const std::size_t share = there > begin ? (there - begin) / layout.ranks : 0;
  const std::size_t arena = std::min(host_memory(), share) / huge_page * huge_page;
  return arena < least_arena ? 0 : arena;
}

[[noreturn]] void does_not_fit(const std::string& what, std::size_t bytes, const std::string& where, int error) {
  throw Error(Code::resource, what + " of " + size_text(bytes) + " does not fit in " + where + " (" +
                                  std::strerror(error) +
                                  "): make room there, set TUTTI_SHM_BYTES lower or TUTTI_SHM_DIR elsewhere");
}

// Sets the size of the sparse file. File systems limit the size of a file, so arenas are halved until the file fits.
void set_size(int fd, Layout& layout, const std::string& where) {
  while (::ftruncate(fd, static_cast<off_t>(layout.bytes())) != 0) {
    if (layout.arena == 0) does_not_fit("the segment", layout.bytes(), where, errno);
    layout.arena = layout.arena / 2 / huge_page * huge_page;
    if (layout.arena < least_arena) layout.arena = 0;
  }
}

// Opens an unnamed file in `folder`; empty with errno if that is not possible.
Descriptor make_nameless_file(const std::string& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;  // not every file system supports unnamed files
  std::string name = folder + "/tutti-XXXXXX";
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (file) ::unlink(name.c_str());
  return file;
}

Descriptor make_memfd(Layout& layout) {
  Descriptor file(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) throw Error(Code::resource, std::string("memfd_create: ") + std::strerror(errno));
  const std::uint64_t available = available_memory();
  const std::string where = "memory, of which " + size_text(available) + " are available";
  if (layout.indices_at() > available) does_not_fit("the segment", layout.indices_at(), where, ENOMEM);
  set_size(file.fd(), layout, where);
  if (const int error = reserve_file(file.fd(), 0, layout.indices_at()))
    does_not_fit("the segment", layout.indices_at(), where, error);
  if (::fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw Error(Code::resource, std::string("the segment cannot be sealed: ") + std::strerror(errno));
  return file;
}

// All indices are reserved at once, because a page has indices of several rings: on file systems that cannot reserve
// memory, reserve_file() writes, and must not do so while another rank uses the page.
Descriptor make_file(Layout& layout, const std::string& folder) {
  Descriptor file = make_nameless_file(folder);
  if (!file)
    throw Error(Code::resource, "memfd_create is refused here and no file can be made in " + folder + " (" +
                                    std::strerror(errno) + "): set TUTTI_SHM_DIR to a folder that can be written");
  set_size(file.fd(), layout, folder);
  if (const int error = reserve_file(file.fd(), 0, layout.rings_at()))
    does_not_fit("the segment", layout.rings_at(), folder, error);
  return file;
}

}  // namespace

std::size_t Layout::slots_at() const noexcept { return round_up(sizeof(Header), line_bytes); }
std::size_t Layout::lines_at() const noexcept {
  return round_up(slots_at() + (ranks + PoisonTable::shared_slots) * sizeof(PoisonSlot), line_bytes);
}
std::size_t Layout::leavers_at() const noexcept { return lines_at() + ranks * sizeof(RankLine); }
std::size_t Layout::told_at() const noexcept {
  return round_up(leavers_at() + ranks * sizeof(std::uint32_t), line_bytes);
}
std::size_t Layout::told_stride() const noexcept { return round_up(ranks, line_bytes); }
std::size_t Layout::indices_at() const noexcept { return round_up(told_at() + ranks * told_stride(), page_bytes()); }
std::size_t Layout::rings_at() const noexcept {
  return round_up(indices_at() + std::size_t{ranks} * ranks * sizeof(RingIndices), page_bytes());
}
std::size_t Layout::ring_at(int from, int to) const noexcept {
  const auto row = static_cast<std::size_t>(from) * (ranks - 1);
  return rings_at() + (row + static_cast<std::size_t>(to < from ? to : to - 1)) * capacity;
}
std::size_t Layout::arenas_at() const noexcept {
  return round_up(rings_at() + std::size_t{ranks} * (ranks - 1) * capacity, huge_page);
}
std::size_t Layout::arena_at(int local) const noexcept { return arenas_at() + static_cast<std::size_t>(local) * arena; }
std::size_t Layout::bytes() const noexcept { return arena_at(static_cast<int>(ranks)); }

Layout plan_layout(const Settings& settings, int ranks, std::string& no_arenas) {
  Layout layout{static_cast<std::uint32_t>(ranks), page_bytes()};
  const std::size_t limit = largest_file(), others = static_cast<std::size_t>(std::max(ranks - 1, 1));
  const auto budget = static_cast<std::size_t>(std::max<std::int64_t>(settings.of(shm_bytes), 0));
  const std::size_t share = std::min(budget, limit / 4 / static_cast<std::size_t>(ranks)) / others;
  layout.capacity = std::max(std::bit_floor(std::min(share, largest_ring)), page_bytes());
  layout.arena = arena_within(layout, limit);
  if (layout.arena == 0) no_arenas = "files may not be larger than " + size_text(limit) + " here (ulimit -f)";
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

Descriptor make_segment(const Settings& settings, int ranks, std::string& no_arenas) {
  Layout layout = plan_layout(settings, ranks, no_arenas);
  int error = 0;
  const bool memfd = memfd_works(error);
  Descriptor file = memfd ? make_memfd(layout) : make_file(layout, settings.of(shm_dir));
  if (layout.arena == 0 && no_arenas.empty()) no_arenas = "there is no sparse file of their size";
  Header header;
  header.ranks = layout.ranks;
  header.capacity = layout.capacity;
  header.arena = layout.arena;
  header.indices_reserved = memfd ? 0 : 1;
  if (::pwrite(file.fd(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    throw Error(Code::resource, std::string("the segment cannot be written: ") + std::strerror(errno));
  return file;
}

Segment::Segment(Descriptor file, int ranks, int self)
    : file_(std::move(file)), self_(self), generation_(fork_generation()) {
  Header header;
  struct stat info {};
  const bool whole = ::pread(fd(), &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
  layout_ = {static_cast<std::uint32_t>(ranks), header.capacity, header.arena};
  indices_reserved_ = header.indices_reserved != 0;
  // The limits prevent an overflow in the sums of Layout.
  if (!whole || header.magic_word != magic || header.ranks != layout_.ranks || !std::has_single_bit(header.capacity) ||
      header.capacity % page_bytes() != 0 || header.capacity > std::max(largest_ring, page_bytes()) ||
      header.arena > mappable || header.arena % huge_page != 0 || ::fstat(fd(), &info) != 0 ||
      static_cast<std::size_t>(info.st_size) != layout_.bytes())
    throw Error(Code::protocol, "the shared segment is not one of this version: do all ranks run the same tutti?");
  void* const head = ::mmap(nullptr, layout_.rings_at(), PROT_READ | PROT_WRITE, MAP_SHARED, fd(), 0);
  if (head == MAP_FAILED)
    throw Error(Code::resource, std::string("the shared segment cannot be mapped (") + std::strerror(errno) +
                                    "): raise the limit on address space (ulimit -v)");
  head_ = static_cast<std::byte*>(head);
  ::madvise(head_, layout_.rings_at(), MADV_DONTFORK);
}

// ---- rings

void Segment::reserve_ring(int to) {
  const auto refuse = [&](int error) {
    throw Error(Code::resource, "the ring of " + size_text(capacity()) +
                                    " to another rank of this host has no memory (" + std::strerror(error) + "; " +
                                    size_text(available_memory()) +
                                    " available): free memory, or room in TUTTI_SHM_DIR, or set TUTTI_SHM_BYTES lower");
  };
  if (!indices_reserved_) {
    const std::size_t at = static_cast<std::size_t>(reinterpret_cast<std::byte*>(&indices(self_, to)) - head_);
    const std::size_t begin = at / page_bytes() * page_bytes();
    if (const int error = reserve_file(fd(), begin, round_up(at + sizeof(RingIndices), page_bytes()) - begin))
      refuse(error);
  }
  if (const int error = reserve_file(fd(), layout_.ring_at(self_, to), capacity())) refuse(error);
}

std::byte* Segment::map_ring(int from, int to) {
  const auto at = static_cast<off_t>(layout_.ring_at(from, to));
  rings_.reserve(rings_.size() + 1);
  void* const space = ::mmap(nullptr, 2 * capacity(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool mapped = space != MAP_FAILED;
  auto* const twice = static_cast<std::byte*>(space);
  for (std::size_t half = 0; half < 2 && mapped; ++half) {
    std::byte* const place = twice + half * capacity();
    mapped = ::mmap(place, capacity(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd(), at) == place;
  }
  if (!mapped) {
    const int error = errno;
    if (space != MAP_FAILED) ::munmap(space, 2 * capacity());
    throw Error(Code::resource, std::string("a ring in shared memory cannot be mapped (") + std::strerror(error) +
                                    "): raise the limits on address space (ulimit -v) and vm.max_map_count");
  }
  ::madvise(twice, 2 * capacity(), MADV_DONTFORK);
  rings_.push_back(twice);
  return twice;
}

RingWriter Segment::open_writer(int to) {
  reserve_ring(to);
  const RingWriter writer(indices(self_, to), map_ring(self_, to), capacity());
  tell(to, opened_ring);
  line(to).opened.fetch_add(1, std::memory_order_seq_cst);
  return writer;
}

RingReader Segment::open_reader(int from) { return {indices(from, self_), map_ring(from, self_), capacity()}; }

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this == &other) return *this;
  release();
  file_ = std::move(other.file_);
  layout_ = other.layout_;
  self_ = other.self_;
  generation_ = other.generation_;
  indices_reserved_ = other.indices_reserved_;
  head_ = std::exchange(other.head_, nullptr);
  rings_ = std::exchange(other.rings_, {});
  return *this;
}

Segment::~Segment() { release(); }

void Segment::release() noexcept {
  // In a forked child nothing is mapped at these addresses, or something else is.
  const bool ours = generation_ == fork_generation();
  if (ours && head_) ::munmap(head_, layout_.rings_at());
  for (std::byte* const ring : rings_)
    if (ours) ::munmap(ring, 2 * capacity());
  head_ = nullptr;
  rings_.clear();
}

RankLine& Segment::line(int rank) noexcept { return reinterpret_cast<RankLine*>(head_ + layout_.lines_at())[rank]; }

PoisonTable Segment::poison() noexcept {
  auto* const header = reinterpret_cast<Header*>(head_);
  auto* const slots = reinterpret_cast<PoisonSlot*>(head_ + layout_.slots_at());
  return {header->poison_changes, {slots, layout_.ranks + PoisonTable::shared_slots}, static_cast<int>(layout_.ranks)};
}

std::atomic<std::uint32_t>* Segment::leaver_list() const noexcept {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(head_ + layout_.leavers_at());
}

void Segment::leave() noexcept {
  line(self_).left.store(1, std::memory_order_release);
  const std::uint32_t place = reinterpret_cast<Header*>(head_)->leavers.fetch_add(1, std::memory_order_seq_cst);
  if (place < layout_.ranks)
    leaver_list()[place].store(static_cast<std::uint32_t>(self_) + 1, std::memory_order_seq_cst);
}

std::uint32_t Segment::leavers() const noexcept {
  return std::min(reinterpret_cast<const Header*>(head_)->leavers.load(std::memory_order_seq_cst), layout_.ranks);
}

int Segment::leaver(std::uint32_t n) const noexcept {
  const std::uint32_t next = leaver_list()[n].load(std::memory_order_seq_cst);
  return next <= layout_.ranks ? static_cast<int>(next) - 1 : -1;
}

std::atomic<std::uint8_t>& Segment::told(int from, int to) const noexcept {
  const std::size_t at = layout_.told_at() + static_cast<std::size_t>(to) * layout_.told_stride();
  return reinterpret_cast<std::atomic<std::uint8_t>*>(head_ + at)[from];
}

void Segment::tell(int to, Told what) noexcept {
  std::atomic<std::uint8_t>& byte = told(self_, to);
  byte.store(byte.load(std::memory_order_relaxed) | what, std::memory_order_seq_cst);
}

// The indices of all rings to one rank are adjacent, so that the rank polls few pages.
RingIndices& Segment::indices(int from, int to) noexcept {
  auto* const all = reinterpret_cast<RingIndices*>(head_ + layout_.indices_at());
  return all[static_cast<std::size_t>(to) * layout_.ranks + static_cast<std::size_t>(from)];
}

}  // namespace tutti::shm
