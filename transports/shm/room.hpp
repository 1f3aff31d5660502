// Room: what one communicator's direct collectives share on a host, as one rank sees it; and how an engine waits.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transports/backend.hpp"
#include "transports/core/barrier.hpp"
#include "transports/core/process.hpp"
#include "transports/shm/commons.hpp"
#include "transports/shm/staging.hpp"

namespace tutti::shm {

/// A word of another rank that has to reach a value.
struct Awaited {
  const Word* word = nullptr;  ///< null: nothing is awaited
  std::uint64_t value = 0;
  int peer = -1;
  bool reached() const noexcept { return word == nullptr || word->load(std::memory_order_acquire) >= value; }
};

/// Ranks here are the group's. Token holder only.
class Room {
 public:
  /// `locals`: by rank of the group, its local index. `all_read_all`: the kernel lets these ranks read one another's
  /// own memory; they agree about that.
  Room(std::shared_ptr<Commons> commons, const Group& group, std::vector<int> locals, bool all_read_all);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  int rank() const noexcept { return group_.rank; }
  int size() const noexcept { return group_.size(); }
  int world_rank(int rank) const noexcept { return group_.members[static_cast<std::size_t>(rank)]; }
  std::uint64_t group() const noexcept { return group_.id; }

  /// As Commons::cache_bytes().
  std::size_t cache_bytes() const noexcept { return commons_->cache_bytes(); }
  /// As Commons::moves_threads().
  bool moves_threads() const noexcept { return commons_->moves_threads(); }

  // ---- before the first call

  bool open() const noexcept { return missing_ == 0; }
  /// Makes the own slab where there is none. Throws Error{resource}.
  void enter();
  /// Looks for the slabs of others. What is left to wait for; nothing: the room is open.
  Awaited look_around();

  // ---- in an open room

  Slab& own() noexcept { return *own_.slab; }
  const Slab& of(int rank) const noexcept { return *slabs_[static_cast<std::size_t>(rank)]; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }
  /// The slots of two rounds; the own ones are made at the first use. Throws Error{resource}.
  std::byte* own_slot(std::uint64_t round) {
    return commons_->open_rounds(own_, slot_bytes_) + (round & 1) * slot_bytes_;
  }
  std::byte* slot_of(int rank, std::uint64_t round) const noexcept {
    return commons_->rounds(local(rank), of(rank)) + (round & 1) * slot_bytes_;
  }
  /// Where a buffer of `rank` lies here; `offset` as in CallLine.
  std::byte* reach(int rank, std::uint64_t offset) const noexcept {
    return commons_->arena(local(rank)).at(offset - 1);
  }
  /// An own buffer's offset as in CallLine.
  std::uint64_t offset_of(const std::byte* data, std::size_t bytes) const noexcept {
    const auto offset = commons_->arena(local(rank())).offset_of(data, bytes);
    return offset ? *offset + 1 : 0;
  }

  /// Stores an own word and wakes those who sleep.
  void post(Word& word, std::uint64_t value) const noexcept {
    word.store(value, std::memory_order_release);
    wake();
  }
  void wake() const noexcept { commons_->wake(locals_); }

  /// What to await before call `number` is given to: a rank that is not known to have come so far that nobody looks at
  /// what lies in the same place any more. Whoever gives has waited for it, and whoever takes gets it from such a rank:
  /// so nobody begins a call while another is in the one of the same line. Nothing: all have come so far.
  std::optional<Awaited> who_is_behind(std::uint64_t number) noexcept {
    return number <= all_entered_ + most_ahead ? std::nullopt : look_who_is_behind(number);
  }
  void has_entered(int rank, std::uint64_t number) noexcept { entered_[static_cast<std::size_t>(rank)] = number; }
  const CallLine& call_of(int rank, std::uint64_t number) const noexcept { return of(rank).calls[number % call_lines]; }

  bool all_read_all() const noexcept { return all_read_all_; }
  /// Out of the own memory of `rank`, from where it sees it. 0, or why not: an errno.
  int read(int rank, std::uint64_t at, std::byte* into, std::size_t bytes) const noexcept {
    return read_memory_of(commons_->process(local(rank)), at, into, bytes);
  }

  bool lives(int rank) const noexcept { return commons_->lives(local(rank)); }

  /// How contributions get into slots.
  Staging& staging() noexcept { return staging_; }

  // ---- writing into the buffers of others

  /// How results get to `rank`: it may run on this core, or far from it.
  Staging& pushing(int rank) noexcept { return pushing_[static_cast<std::size_t>(rank)]; }

  /// While it lives, this rank may be writing there, unless somebody does not allow it any more.
  class Touching {
   public:
    explicit Touching(Room& room) noexcept : room_(room) {
      room_.own().touching.store(1, std::memory_order_relaxed);
      light_barrier();  // pairs with the heavy one of leave_alone()
    }
    Touching(const Touching&) = delete;
    Touching& operator=(const Touching&) = delete;
    ~Touching() { room_.own().touching.store(0, std::memory_order_release); }
    bool allowed() const noexcept { return !room_.somebody_cancelled(); }

   private:
    Room& room_;
  };
  /// Whether somebody's buffers must not be touched any more.
  bool somebody_cancelled() const noexcept {
    for (const Slab* slab : slabs_)
      if (slab->cancelled.load(std::memory_order_relaxed) != 0) return true;
    return false;
  }

  /// Nobody begins to write to this rank's buffers any more. Returns when nobody does; false where a rank still does
  /// after 50 ms and is stopped or hidden, or after 1 s. `dead`: a rank of the world that need not be waited for, -1:
  /// none.
  bool leave_alone(int dead) noexcept;
  /// Those own buffers are never handed out again: somebody may still write there.
  void quarantine(const std::byte* in, const std::byte* out) noexcept;

  /// Whether `rank` has ended normally.
  bool left(int rank) const noexcept { return commons_->left(local(rank)); }

  // ---- waiting, in an engine: `co_await room.until(...)`

  class Pause {
   public:
    Pause(Room& room, Awaited what) noexcept : room_(room), what_(what) {}
    bool await_ready() const noexcept { return what_.word != nullptr && what_.reached(); }
    void await_suspend(std::coroutine_handle<> /*engine*/) noexcept { room_.awaited_ = what_; }
    void await_resume() const noexcept {}

   private:
    Room& room_;
    Awaited what_;
  };
  Pause until(Awaited what) noexcept { return {*this, what}; }
  Pause until(const Word& word, std::uint64_t value, int peer) noexcept { return until({&word, value, peer}); }
  /// Somebody has been cancelled, of which all are told, and so will this rank be: never goes on.
  Pause until_cancelled() noexcept { return {*this, {&own().never, 1, rank()}}; }
  /// Lets others go on: a step is bounded. Goes on by itself at the next look.
  Pause breathe() noexcept { return {*this, {}}; }
  const Awaited& awaited() const noexcept { return awaited_; }

  /// Memory for the one engine that runs at a time.
  void* frame(std::size_t bytes);

 private:
  std::optional<Awaited> look_who_is_behind(std::uint64_t number) noexcept;
  int local(int rank) const noexcept { return locals_[static_cast<std::size_t>(rank)]; }

  std::shared_ptr<Commons> commons_;
  const Group group_;
  const std::vector<int> locals_;
  const bool all_read_all_;
  const std::size_t slot_bytes_;
  OwnSlab own_;
  std::vector<const Slab*> slabs_;      // by rank; null: not found yet
  std::vector<std::uint64_t> entered_;  // by rank: the highest call that it is known to have entered
  std::uint64_t all_entered_ = 0;       // a call that all others are known to have
  int missing_;
  Awaited awaited_;
  Staging staging_;
  std::vector<Staging> pushing_;  // by rank
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> frame_;
};

}  // namespace tutti::shm
