// FlightRecorder: the last calls of this process's groups, in the format that torch's analyser of hangs reads.
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bindings/torch/tensors.hpp"

namespace torch {
struct CapturedTraceback;
}

namespace tutti::torch_binding {

/// A process group as dumps name it. The names and members do not change; the recorder guards the rest.
struct RecordedProcessGroup {
  std::string name, desc;                                 ///< as torch names it: "0" and "default_pg"
  std::vector<std::int64_t> members;                      ///< the group's ranks in the default group
  int rank = 0;                                           ///< this process's rank in the group
  std::size_t number = 0;                                 ///< of this process's groups
  std::uint64_t calls = 0;                                ///< all calls so far
  std::uint64_t newest = 0;                               ///< collectives so far
  std::uint64_t done = 0;                                 ///< the newest collective that has ended well
  std::map<int, std::uint64_t> sent = {}, received = {};  ///< messages so far, by the other rank
};

/// A call when it is launched.
struct RecordedCall {
  c10d::OpType type;
  const char* name;  ///< valid for ever
  const Tensors &inputs, &outputs;
  std::uint64_t sequence = 0;  ///< of a collective, in its group
  int from = -1, to = -1;      ///< of a message, ranks of the group; -1 in `from`: any rank
  std::chrono::milliseconds timeout{};
};

/// Keeps the last calls in a ring, as torch's own recorder does for NCCL, and writes them in the same format. torch's
/// recorder cannot be shared: its functions are not exported from libtorch_cpu, and backends outside torch have no
/// hook.
///
/// A dump differs from torch's in three points. A call on the CPU gets the states `started` and `completed`. Names
/// begin with "gloo:", because the analyser refuses names of backends that are not torch's. A message is in a group of
/// its sender and its receiver, one for each direction, because the analyser compares the calls of a group by their
/// numbers.
///
/// Threads: any.
class FlightRecorder {
 public:
  /// Names an entry until another call takes its place. 0: none.
  using Ticket = std::uint64_t;

  /// The instance of this process; never destroyed. It has TORCH_FR_BUFFER_SIZE entries, 2000 by default.
  static FlightRecorder& instance();
  /// False if the variable is 0, or if the headers of this torch have no flight recorder.
  bool is_on() const noexcept { return !ring_.empty(); }

  std::shared_ptr<RecordedProcessGroup> add(RecordedProcessGroup group);
  /// Records a call that is about to be launched. Takes the GIL for the stack of Python.
  Ticket begin(const std::shared_ptr<RecordedProcessGroup>& group, const RecordedCall& call);
  /// `source`: the rank that a message came from.
  void end(Ticket ticket, bool ok, int source = -1) noexcept;

  /// The entries as a pickle. `stacks`: with stacks, for which it takes the GIL.
  std::string dump(bool stacks);
  /// This process's rank in the default group, which is the first group that it makes.
  void set_rank(int rank) noexcept;
  int rank() const noexcept { return std::max(rank_.load(), 0); }

 private:
  struct Entry {
    Ticket ticket = 0;
    std::shared_ptr<RecordedProcessGroup> group;
    c10d::OpType type{};
    const char* name = nullptr;
    int from = -1, to = -1;
    std::uint64_t sequence = 0, call = 0;  // the numbers in the group: of the collective or message, of all calls
    std::shared_ptr<torch::CapturedTraceback> stack;
    std::int64_t created = 0, ended = 0;  // ns since 1970; 0: runs, or failed
    std::chrono::milliseconds timeout{};
    c10::SmallVector<std::int64_t, 8> inputs, outputs;  // of each tensor: type, number of dimensions, sizes
    std::thread::id thread;
    std::array<char, 16> thread_name{};
    bool retired = false;
  };
  struct Dump;
  explicit FlightRecorder(std::size_t entries) : ring_(entries) {}
  std::vector<Entry> entries();

  std::atomic<int> rank_{-1};
  std::vector<Entry> ring_;
  std::mutex mutex_;  // guards what follows, the ring and the groups
  Ticket newest_ = 0;
  std::vector<std::shared_ptr<RecordedProcessGroup>> groups_;
};

}  // namespace tutti::torch_binding
