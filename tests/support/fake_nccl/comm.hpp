// A fake NCCL communicator, and its operations.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_nccl/fake_nccl.hpp"
#include "tests/support/fake_nccl/segment.hpp"
#include "transports/nccl/api.hpp"

namespace fake_nccl {

using tutti::nccl::Result;

const Runtime* runtime() noexcept;
void say_error(const std::string& text);

/// A transfer of bytes from or to one peer.
struct Transfer {
  int peer;
  bool sends;
  std::byte* memory;
  std::size_t bytes;
  std::uint64_t what;
  std::size_t done = 0;
  bool begun = false;  // an empty transfer is a message, too
  bool over() const noexcept { return begun && done == bytes; }
};

/// The work of one launch: first `begins`, then all transfers at once, then `ends`.
struct Task {
  std::vector<std::function<void()>> begins;
  std::vector<Transfer> transfers;
  std::vector<std::function<void()>> ends;
};

/// The state that a call in progress keeps with its thread until Comm::finish().
struct Job {
  std::atomic<bool> unfinished{true}, thread_gone{false};
};

/// A device plays one task at a time, in the order in which they were launched.
class Device {
 public:
  static Device& of(int index);
  std::size_t launched(std::uint64_t comm);  ///< returns the task's number
  std::vector<std::uint64_t> launches();
  bool has_turn(std::size_t task);
  void over(std::size_t task);

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> launches_;
  std::set<std::size_t> unfinished_;
};

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  Comm(int rank, int size, std::string name, int device);
  ~Comm();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int device() const noexcept { return device_; }
  const std::string& name() const noexcept { return name_; }
  Result state() const noexcept { return static_cast<Result>(state_.load()); }

  void begin(bool blocking);               // connects to the others on a thread of its own
  Result launch(Task task, void* stream);  // never blocks
  Result finish();                         // finishes the job of the last call, if that has succeeded
  void abort();                            // ends all calls in flight

 private:
  Result meet();
  void leave_job();
  void play(Task& task, int number, std::size_t place);
  bool move(Task& task);
  bool step(Transfer& one);
  void fail(Result why, const std::string& text);
  bool wait_for_abort();

  const int rank_, size_;
  const std::string name_;
  const int device_;
  std::uint64_t id_ = 0;
  std::unique_ptr<Segment> segment_;
  std::atomic<int> state_{tutti::nccl::in_progress};
  std::atomic<bool> aborted_{false};
  int calls_ = 0;
  std::shared_ptr<Job> job_;
  std::thread meeting_;
};

}  // namespace fake_nccl
