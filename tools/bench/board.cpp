// The shared board: a memfd with a barrier, two shared values, and each rank's process and time stamps.
#include "tools/bench/board.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <ctime>
#include <system_error>

#include "tutti/status.hpp"

namespace tutti::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int spins = 1000;                               // number of polls before the first yield
constexpr auto spinning = std::chrono::milliseconds(50);  // time of yielding before sleep; no healthy rank is later
constexpr timespec nap = {0, 10'000'000};                 // sleep between two checks whether the other ranks live

struct Head {
  alignas(64) std::atomic<std::uint32_t> arrived;
  alignas(64) std::atomic<std::uint32_t> generation;
  alignas(64) std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> culprit;  // 1 + the rank that was found to have gone; 0: none
  alignas(64) std::atomic<std::int64_t> word;
  std::atomic<std::uint64_t> total;
};

struct Member {
  alignas(64) std::atomic<pid_t> process;      // 0: the rank has not opened the board yet
  std::atomic<std::uint64_t> process_numbers;  // inode of the pid namespace of `process`
  std::atomic<bool> left;
};

std::size_t board_bytes(int ranks) {
  return sizeof(Head) + static_cast<std::size_t>(ranks) * (sizeof(Member) + max_iterations * sizeof(Stamp));
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(Code::resource, what + ": " + std::generic_category().message(errno));
}

std::uint64_t namespace_of_processes() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

class SharedBoard : public Board {
 public:
  SharedBoard(const std::string& path, int rank, int ranks)
      : rank_(rank), ranks_(ranks), bytes_(board_bytes(ranks)), watched_(static_cast<std::size_t>(ranks), -1) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) fail("cannot open the board " + path);
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) fail("cannot map the board");
    head_ = static_cast<Head*>(memory);
    member(rank_).process_numbers.store(namespace_of_processes());
    member(rank_).process.store(getpid());
  }
  ~SharedBoard() override {
    member(rank_).left.store(true);
    for (const int fd : watched_)
      if (fd >= 0) close(fd);
    munmap(head_, bytes_);
  }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  void barrier() override {
    const std::uint32_t turn = head_->generation.load(std::memory_order_acquire);
    if (head_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
      head_->arrived.store(0, std::memory_order_relaxed);
      head_->generation.store(turn + 1);
      if (head_->sleepers.load() > 0) syscall(SYS_futex, &head_->generation, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      return;
    }
    for (int i = 0; i < spins; ++i)
      if (released(turn)) return;
    for (const auto end = Clock::now() + spinning; Clock::now() < end; sched_yield())
      if (released(turn)) return;
    while (!released(turn)) {
      look_after_others(turn);
      head_->sleepers.fetch_add(1);
      syscall(SYS_futex, &head_->generation, FUTEX_WAIT, turn, &nap, nullptr, 0);
      head_->sleepers.fetch_sub(1);
    }
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
  bool released(std::uint32_t turn) const { return head_->generation.load(std::memory_order_acquire) != turn; }

  /// Throws if a rank that this barrier waits for will never come. All ranks name the rank that was found first as the
  /// culprit, not ranks that left because of it.
  void look_after_others(std::uint32_t turn) {
    std::uint32_t culprit = head_->culprit.load();
    if (culprit == 0 && (culprit = missing()) != 0) {
      if (released(turn)) return;  // the rank left after it had passed the barrier
      std::uint32_t nobody = 0;
      if (!head_->culprit.compare_exchange_strong(nobody, culprit)) culprit = nobody;
    }
    if (culprit == 0) return;
    const int rank = static_cast<int>(culprit) - 1;
    throw Error(Code::peer_lost,
                "rank " + std::to_string(rank) + " (process " + std::to_string(member(rank).process.load()) +
                    ") ended in the middle of the measurement: see what it said, or who ended it",
                rank);
  }

  /// Returns 1 + a rank that has gone, preferably one that died; 0 if there is none.
  std::uint32_t missing() {
    std::uint32_t found = 0;
    for (int r = 0; r < ranks_; ++r) {
      const bool left = member(r).left.load();
      if (r == rank_ || (!left && alive(r))) continue;
      found = static_cast<std::uint32_t>(r) + 1;
      if (!left) break;
    }
    return found;
  }

  bool alive(int rank) {
    const Member& other = member(rank);
    const pid_t process = other.process.load();
    // the process cannot be checked, so it counts as alive
    if (process == 0 || other.process_numbers.load() != member(rank_).process_numbers.load()) return true;
    int& fd = watched_[static_cast<std::size_t>(rank)];
    if (fd < 0) fd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
    if (fd < 0) return errno != ESRCH;
    pollfd end = {fd, POLLIN, 0};
    return poll(&end, 1, 0) <= 0;
  }

  Member& member(int rank) const { return reinterpret_cast<Member*>(head_ + 1)[rank]; }
  Stamp* column(int rank) const {
    return reinterpret_cast<Stamp*>(&member(ranks_)) + static_cast<std::size_t>(rank) * max_iterations;
  }

  int rank_, ranks_;
  std::size_t bytes_;
  std::vector<int> watched_;  // a pidfd for each rank that was checked
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

SharedMemory make_shared_memory(int ranks) {
  const int fd = memfd_create("tutti-bench", MFD_CLOEXEC);
  if (fd < 0) fail("cannot make the board (memfd_create)");
  if (ftruncate(fd, static_cast<off_t>(board_bytes(ranks))) != 0) {
    close(fd);
    fail("cannot size the board");
  }
  return {fd, "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd)};
}

}  // namespace tutti::bench
