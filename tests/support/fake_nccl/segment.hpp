// The shared memory of the ranks of one fake communicator: a channel of a few pieces for each ordered pair of ranks.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace fake_nccl {

inline constexpr std::size_t piece_bytes = 32 << 10;
inline constexpr int most_ranks = 16;

/// Has one writer and one reader. A new page, which is all zeros, is an empty channel.
struct Channel {
  static constexpr std::uint64_t depth = 2;
  struct Piece {
    std::uint64_t what;  // identifies the sender's call
    std::uint64_t bytes;
    std::byte data[piece_bytes];
  };
  std::atomic<std::uint64_t> put, got;
  Piece pieces[depth];
};

struct alignas(64) Shared {
  std::atomic<int> attached;
  std::atomic<int> device[most_ranks];  // the device's number plus 1
};

/// Shared memory that every rank maps by the same name. The last rank removes the name.
class Segment {
 public:
  Segment(const std::string& name, int size)
      : name_(name), size_(size), bytes_(sizeof(Shared) + sizeof(Channel) * static_cast<std::size_t>(size * size)) {
    const int fd = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    void* const memory = ::ftruncate(fd, static_cast<off_t>(bytes_)) == 0
                             ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                             : MAP_FAILED;
    ::close(fd);
    if (memory != MAP_FAILED) shared_ = static_cast<Shared*>(memory);
  }
  ~Segment() {
    forget();
    if (shared_ != nullptr) ::munmap(shared_, bytes_);
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  explicit operator bool() const noexcept { return shared_ != nullptr; }
  Shared* operator->() const noexcept { return shared_; }
  Channel& channel(int from, int to) const noexcept {
    return reinterpret_cast<Channel*>(shared_ + 1)[from * size_ + to];
  }
  void forget() noexcept {
    if (!name_.empty()) ::shm_unlink(name_.c_str());
    name_.clear();
  }
  void keep_name_to_others() noexcept { name_.clear(); }

 private:
  std::string name_;
  int size_;
  std::size_t bytes_;
  Shared* shared_ = nullptr;
};

}  // namespace fake_nccl
