// GroupMemory: one rank's access to the shared memory of a communicator's collectives, and how engines wait.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transports/core/barrier.hpp"
#include "transports/core/process.hpp"
#include "transports/shm/host_state.hpp"
#include "transports/shm/staging.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti::shm {

/// A word of another rank that must reach a value.
struct Awaited {
  const Word* word = nullptr;  ///< null: nothing to wait for
  std::uint64_t value = 0;
  int peer = -1;
  bool reached() const noexcept { return word == nullptr || word->load(std::memory_order_acquire) >= value; }
};

/// A rank is a number in the group. All functions are called with the progress token (the context's lock) held.
class GroupMemory final : private Tenant {
 public:
  /// `locals`: the local index of each rank of the group. `all_read_all`: true if these ranks can read one another's
  /// private memory through the kernel; the same on all of them.
  GroupMemory(std::shared_ptr<HostState> host_state, const Group& group, std::vector<int> locals, bool all_read_all);
  ~GroupMemory();
  GroupMemory(const GroupMemory&) = delete;
  GroupMemory& operator=(const GroupMemory&) = delete;

  int rank() const noexcept { return group_.rank; }
  int size() const noexcept { return group_.size(); }
  int world_rank(int rank) const noexcept { return group_.members[static_cast<std::size_t>(rank)]; }
  std::uint64_t group() const noexcept { return group_.id; }

  /// As HostState::cache_bytes().
  std::size_t cache_bytes() const noexcept { return host_state_->cache_bytes(); }
  /// As HostState::moves_threads().
  bool moves_threads() const noexcept { return host_state_->moves_threads(); }

  // ---- before the first call

  bool open() const noexcept { return missing_ == 0; }
  /// Creates this rank's slab, if it has none. Throws Error{resource}.
  void enter() {
    if (own_.slab == nullptr) open_slab();
  }
  /// Looks up the slabs of the other ranks. Returns the word to wait for before the next call; its `word` is null once
  /// all slabs are found.
  Awaited look_around();

  // ---- once all ranks are found

  Slab& own() noexcept { return *own_.slab; }
  const Slab& of(int rank) const noexcept { return *slabs_[static_cast<std::size_t>(rank)]; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  /// This rank's slot for `round`; rounds alternate between two slots. The first use allocates both. Throws
  /// Error{resource}.
  std::byte* own_slot(std::uint64_t round) {
    if (own_.slab->rounds == 0) take_rounds();
    rounds_end_ = std::max(rounds_end_, round + 1);
    return slot_of(rank(), round);
  }
  std::byte* slot_of(int rank, std::uint64_t round) const noexcept {
    return host_state_->at(local(rank), of(rank).rounds) + (round & 1) * slot_bytes_;
  }
  /// `round`: the number of rounds so far. They have ended once the word `gathered` of every rank has reached it.
  void rounds_end_at(std::uint64_t round) noexcept { rounds_end_ = round; }

  /// This rank's slot for one-shot call `number`. The first use allocates this rank's Shots. Throws Error{resource}.
  std::byte* own_shot(std::uint64_t number) {
    if (own_.slab->shots == 0) own_.slab->shots = host_state_->shots().take(*this);
    last_shot_ = number;
    return reinterpret_cast<Shots*>(host_state_->at(local(rank()), own_.slab->shots))->at(number % one_shots).data();
  }
  const std::byte* shot_of(int rank, std::uint64_t number) const noexcept {
    return (*reinterpret_cast<const Shots*>(host_state_->at(local(rank), of(rank).shots)))[number % one_shots].data();
  }

  /// The packets of call `number`: most_packets_per_call if it is `wide`, else packets_per_call. own_packets()
  /// allocates this rank's wide packets at the first use, and throws Error{resource}.
  Packet* own_packets(std::uint64_t number, bool wide) {
    if (wide && own_.slab->wide == 0) own_.slab->wide = host_state_->take(sizeof(WidePackets));
    return const_cast<Packet*>(packets_of(rank(), number, wide));
  }
  const Packet* packets_of(int rank, std::uint64_t number, bool wide) const noexcept {
    const Slab& slab = of(rank);
    if (!wide) return slab.packets[packet_set_of(number)].data();
    return (*reinterpret_cast<const WidePackets*>(host_state_->at(local(rank), slab.wide)))[packet_set_of(number)]
        .data();
  }
  /// The address in this process of a buffer of `rank`; `offset` as in CallLine.
  std::byte* reach(int rank, std::uint64_t offset) const noexcept {
    return host_state_->arena(local(rank)).at(offset - 1);
  }
  /// The offset of a buffer of this rank, as in CallLine.
  std::uint64_t offset_of(const std::byte* data, std::size_t bytes) const noexcept {
    const auto offset = host_state_->arena(local(rank())).offset_of(data, bytes);
    return offset ? *offset + 1 : 0;
  }

  /// Stores a word of this rank and wakes sleeping peers.
  void post(Word& word, std::uint64_t value) const noexcept {
    word.store(value, std::memory_order_release);
    wake();
  }
  void wake() const noexcept { host_state_->wake(locals_); }

  /// The wire drives the backend from add_busy() to remove_busy().
  void add_busy(Engine& backend) { host_state_->add_busy(backend); }
  void remove_busy(const Engine& backend) noexcept { host_state_->remove_busy(backend); }

  /// The word that a sender must wait for before call `number`, because a peer may still read the slot that this call
  /// reuses; nullopt if no peer does. Receivers need no check, because they wait for data of a sender that has
  /// waited. So no two ranks are ever in different calls that use the same slot.
  std::optional<Awaited> who_is_behind(std::uint64_t number) noexcept {
    return number <= all_entered_ + most_ahead ? std::nullopt : look_who_is_behind(number);
  }
  void has_entered(int rank, std::uint64_t number) noexcept { entered_[static_cast<std::size_t>(rank)] = number; }
  const CallLine& call_of(int rank, std::uint64_t number) const noexcept { return of(rank).calls[number % call_lines]; }

  bool all_read_all() const noexcept { return all_read_all_; }
  /// Reads private memory of `rank` at `at`, an address in that process. Returns 0 or an errno.
  int read(int rank, std::uint64_t at, std::byte* into, std::size_t bytes) const noexcept {
    return read_memory_of(host_state_->process(local(rank)), at, into, bytes);
  }

  bool lives(int rank) const noexcept { return host_state_->lives(local(rank)); }

  /// How this rank copies its data into slots.
  Staging& staging() noexcept { return staging_; }

  // ---- writing into the buffers of others

  /// Copies results into buffers of `rank`, with the kind of stores that was measured to cost less for this rank.
  Staging& pushing(int rank) noexcept { return pushing_[static_cast<std::size_t>(rank)]; }

  /// Marks this rank as possibly writing to peers' buffers, for the lifetime of the object. Check allowed() before
  /// writing.
  class Touching {
   public:
    explicit Touching(GroupMemory& memory) noexcept : memory_(memory) {
      memory_.own().touching.store(1, std::memory_order_relaxed);
      light_barrier();  // pairs with heavy_barrier() in leave_alone()
    }
    Touching(const Touching&) = delete;
    Touching& operator=(const Touching&) = delete;
    ~Touching() { memory_.own().touching.store(0, std::memory_order_release); }
    bool allowed() const noexcept { return !memory_.somebody_cancelled(); }

   private:
    GroupMemory& memory_;
  };
  /// True if a rank has cancelled its calls, so that its buffers must not be accessed any more.
  bool somebody_cancelled() const noexcept {
    for (const Slab* slab : slabs_)
      if (slab->cancelled.load(std::memory_order_relaxed) != 0) return true;
    return false;
  }

  /// Forbids new writes to this rank's buffers and waits until the current ones end. Returns false if a peer still
  /// writes after 50 ms and its process is stopped or not visible, or if a peer still writes after 1 s. `dead`: a world
  /// rank not to wait for; -1: none.
  bool leave_alone(int dead) noexcept;
  /// Never reuses these buffers of this rank, because a peer may still write to them.
  void quarantine(const std::byte* in, const std::byte* out) noexcept;

  /// True if `rank` has ended normally.
  bool left(int rank) const noexcept { return host_state_->left(local(rank)); }

  // ---- waiting, in an engine: `co_await memory.until(...)`

  class Pause {
   public:
    Pause(GroupMemory& memory, Awaited what) noexcept : memory_(memory), what_(what) {}
    bool await_ready() const noexcept { return what_.word != nullptr && what_.reached(); }
    void await_suspend(std::coroutine_handle<> /*engine*/) noexcept { memory_.awaited_ = what_; }
    void await_resume() const noexcept {}

   private:
    GroupMemory& memory_;
    Awaited what_;
  };
  Pause until(Awaited what) noexcept { return {*this, what}; }
  Pause until(const Word& word, std::uint64_t value, int peer) noexcept { return until({&word, value, peer}); }
  /// Never resumes: a rank has been cancelled, and this rank is about to be cancelled too.
  Pause until_cancelled() noexcept { return {*this, {&own().never, 1, rank()}}; }
  /// Suspends to bound the length of a step; resumes at the next poll.
  Pause breathe() noexcept { return {*this, {}}; }
  const Awaited& awaited() const noexcept { return awaited_; }

  /// Memory for the coroutine frame of the one engine that runs at a time.
  void* frame(std::size_t bytes);

 private:
  void open_slab();
  bool gives_up(std::size_t room) noexcept override;
  void take_rounds();
  std::optional<Awaited> look_who_is_behind(std::uint64_t number) noexcept;
  int local(int rank) const noexcept { return locals_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<HostState> host_state_;
  const Group group_;
  const std::vector<int> locals_;
  const bool all_read_all_;
  const std::size_t slot_bytes_;
  OwnSlab own_;
  std::vector<const Slab*> slabs_;      // by rank; null: not found yet
  std::vector<std::uint64_t> entered_;  // by rank: the highest call that the rank is known to have entered
  std::uint64_t all_entered_ = 0;       // the highest call that all others are known to have entered
  int missing_;
  std::uint64_t last_shot_ = 0;   // the last call for which this rank used its shots
  std::uint64_t rounds_end_ = 0;  // number of rounds so far
  Awaited awaited_;
  Staging staging_;
  std::vector<Staging> pushing_;  // by rank
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> frame_;
};

}  // namespace tutti::shm
