// The shared board: a memfd with a barrier, one word, and a column of stamps for each rank.
#include "tools/bench/board.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>

#include "transports/core/status.hpp"

namespace tutti::bench {
namespace {

struct Head {
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) std::atomic<std::uint32_t> generation;
  alignas(64) std::atomic<std::int64_t> word;
  std::atomic<std::uint64_t> total;
};

std::size_t board_bytes(int ranks) {
  return sizeof(Head) + static_cast<std::size_t>(ranks) * max_iterations * sizeof(Stamp);
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(Code::resource, what + ": " + std::generic_category().message(errno));
}

class SharedBoard : public Board {
 public:
  SharedBoard(const std::string& path, int rank, int ranks) : rank_(rank), ranks_(ranks), bytes_(board_bytes(ranks)) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) fail("cannot open the board " + path);
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) fail("cannot map the board");
    head_ = static_cast<Head*>(memory);
  }
  ~SharedBoard() override { munmap(head_, bytes_); }

  void barrier() override {
    const std::uint32_t turn = head_->generation.load(std::memory_order_acquire);
    if (head_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
      head_->arrived.store(0, std::memory_order_relaxed);
      head_->generation.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; head_->generation.load(std::memory_order_acquire) == turn; ++spins)
      if (spins > 1000) sched_yield();
  }

  std::vector<double> durations(std::span<const Stamp> stamps) override {
    std::copy(stamps.begin(), stamps.end(), column(rank_));
    barrier();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < stamps.size(); ++i) {
      Stamp whole = column(0)[i];
      for (int r = 1; r < ranks_; ++r) {
        whole.entered = std::min(whole.entered, column(r)[i].entered);
        whole.left = std::max(whole.left, column(r)[i].left);
      }
      seconds.push_back(static_cast<double>(whole.left - whole.entered) * 1e-9);
    }
    barrier();
    return seconds;
  }

  std::uint64_t sum(std::uint64_t value) override {
    barrier();
    head_->total.store(0);
    barrier();
    head_->total.fetch_add(value);
    barrier();
    return head_->total.load();
  }

  std::int64_t from_first(std::int64_t value) override {
    barrier();
    if (rank_ == 0) head_->word.store(value);
    barrier();
    return head_->word.load();
  }

 private:
  Stamp* column(int rank) {
    return reinterpret_cast<Stamp*>(head_ + 1) + static_cast<std::size_t>(rank) * max_iterations;
  }

  int rank_, ranks_;
  std::size_t bytes_;
  Head* head_;
};

}  // namespace

Stamp now_stamp() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return {ns, ns};
}

std::unique_ptr<Board> open_shared_board(const std::string& path, int rank, int ranks) {
  return std::make_unique<SharedBoard>(path, rank, ranks);
}

std::string make_shared_memory(int ranks) {
  // Without CLOEXEC: the process that becomes the launcher keeps it open for the ranks.
  const int fd = memfd_create("tutti-bench", 0);
  if (fd < 0) fail("cannot make the board (memfd_create)");
  if (ftruncate(fd, static_cast<off_t>(board_bytes(ranks))) != 0) fail("cannot size the board");
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
}

}  // namespace tutti::bench
