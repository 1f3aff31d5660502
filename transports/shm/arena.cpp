// Creates, maps and allocates from an arena.
#include "transports/shm/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tutti/fork.hpp"
#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::shm {
namespace {

// Smaller sizes skip the check of free memory, which takes 0.1 ms.
constexpr std::size_t worth_asking = std::size_t{4} << 20;

}  // namespace

Arenas::Arenas(int fd, const Layout& layout, int self) : each_(layout.arena), generation_(fork_generation()) {
  if (each_ == 0) return;
  bytes_ = layout.ranks * each_;
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                              static_cast<off_t>(layout.arenas_at()));
  if (memory == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(memory);
  ::madvise(base_, bytes_, MADV_DONTDUMP);
  const std::size_t own = static_cast<std::size_t>(self) * each_, after = own + each_;
  if (own > 0) ::madvise(base_, own, MADV_DONTFORK);
  if (after < bytes_) ::madvise(base_ + after, bytes_ - after, MADV_DONTFORK);
}

Arenas::~Arenas() {
  if (base_ && generation_ == fork_generation()) ::munmap(base_, bytes_);
}

Arena::Arena(Descriptor file, std::size_t begin, std::shared_ptr<const Arenas> all, int self)
    : file_(std::move(file)),
      begin_(begin),
      all_(std::move(all)),
      map_(all_->of(self)),
      generation_(fork_generation()) {
  free_.emplace(0, map_.bytes);
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
      refuse_allocation(bytes, "no gap in the " + size_text(map_.bytes) + " that can be shared");
    offset = found->first;
    const std::size_t rest = found->second - length;
    free_.erase(found);
    if (rest > 0) free_.emplace(offset + length, rest);
    taken_.emplace(offset, length);
  }
  if (const int error = reserve_pages(file_.fd(), begin_ + offset, map_.at(offset), length)) {
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
  if (::fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, in_file(offset),
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
  ::fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, in_file(offset), static_cast<off_t>(bytes));
}

void Arena::fill(std::size_t offset, std::size_t bytes) {
  if (bytes % page_bytes() != 0) return;
  if (const int error = reserve_pages(file_.fd(), begin_ + offset, map_.at(offset), bytes))
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
