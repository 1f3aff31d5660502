// StagedBackend: collectives on device memory through the host. Calls are divided into slices, which are copied to
// pinned slots, reduced or exchanged by any host backend, and copied back: a pipeline of three slices.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transports/staged/slices.hpp"
#include "tutti/accelerator.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti::staged {

/// What a StagedBackend uses. Its first call requests all of it, so programs without devices pay nothing.
struct Host {
  std::function<Accelerator&()> accelerator;
  /// Creates a backend for host memory, for this communicator's ranks in their order. Only this StagedBackend uses it.
  std::function<std::unique_ptr<Backend>()> backend;
  /// Allocates the host memory that this backend accesses fastest.
  std::function<std::shared_ptr<void>(std::size_t)> allocate;
  std::size_t slot_bytes = 0;  ///< bytes of half a slot; a setting, so equal on all ranks
};

/// Performs calls in order, one slice at a time on the host, so their tags never conflict. Uses three pinned slots of
/// two halves each, for calls of any size.
class StagedBackend final : public Backend, private Tracker {
 public:
  static constexpr std::string_view own_name = "staged";

  StagedBackend(const Group& group, Host host);
  ~StagedBackend() override;

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }  // the descriptors of the transport wake this backend too
  bool arm(bool on) override { return !inner_ || inner_->arm(on); }
  bool polled() const noexcept override;

 private:
  static constexpr std::size_t slot_count = 3;

  struct Memory {
    std::shared_ptr<void> slots, pinned;  // `pinned` must be released first
  };
  // Device memory that is reused and freed only with this object, because freeing may wait for the whole device.
  struct Scratch {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };
  // Two streams of a device, one per direction, and the events of the slots' copies.
  struct Side {
    Side(Accelerator& gpu, int device);
    Owned<Stream> fetching, storing;
    std::vector<Owned<Event>> fetched, stored;  // by slot
    std::vector<Scratch> spare;
  };
  struct Playing {
    Call* call = nullptr;
    Side* side = nullptr;
    std::unique_ptr<Slicing> slicing;  // null: the largest count is not known yet
    std::size_t fetched = 0;           // slices whose copy to the host is enqueued
    bool is_ready = false;             // Call::after has completed
    Scratch copied;                    // a copy of `in` if `out` overwrites data not read yet
    const std::byte* source = nullptr;
    bool is_last(std::size_t number) const noexcept { return number + 1 == slicing->slices(); }
  };
  // The call that runs on the host.
  struct OnHost final : Call {
    explicit OnHost(StagedBackend& backend) : backend_(backend) {}
    void trouble(const Status& why) override { backend_.trouble_on_host(why); }
    void ended(const Status& status) override { backend_.ended_on_host(status); }
    StagedBackend& backend_;
  };
  // The slice in a slot, from its first copy to its last.
  struct Staged {
    Playing* of = nullptr;
    Side* side = nullptr;
    std::size_t number = 0;
    Slice slice;
    std::size_t slot = 0;
    bool fetching = false, storing = false;  // a copy is enqueued, and not known to have ended
  };

  std::string where(const Call& call) const override;
  void prepare();
  bool advance();
  bool fetch();
  bool is_ready(Playing& playing);
  void begin(Playing& playing);
  Scratch take_scratch(Side& side, std::size_t bytes);
  bool play();
  void play_slice(Staged& one);
  void measure(Playing& playing);
  bool store();
  bool retire();
  Playing& at_hand() noexcept {
    return measures_ || playing_ == staged_.size() ? *calls_[fetching_] : *staged_[playing_].of;
  }
  void fail(Code code, const std::string& what);
  bool has_settled(const Playing& playing) noexcept;
  void give_back(Playing& playing);
  std::byte* half(std::size_t slot, bool out) const noexcept;
  Side& side_of(int device);
  void start_on_host(const Playing& playing);
  void trouble_on_host(const Status& why);
  void ended_on_host(const Status& status);

  const Group group_;
  const Host host_;
  const std::uint32_t generation_;
  Accelerator* gpu_ = nullptr;
  OnHost on_host_{*this};
  std::unique_ptr<Backend> inner_;
  Memory memory_;
  std::size_t half_bytes_ = 0;
  std::map<int, Side> sides_;

  std::deque<std::unique_ptr<Playing>> calls_;  // in order; the first call has the oldest slices
  std::size_t fetching_ = 0;                    // index in calls_ of the call whose slices are being fetched
  std::deque<Staged> staged_;                   // oldest first; those before playing_ are being stored
  std::size_t playing_ = 0;                     // index in staged_ of the slice that runs on the host, or is next
  std::uint64_t slices_ = 0;                    // number of slices fetched so far

  bool waits_ = false;     // for a caller's stream, which has to be polled
  bool plays_ = false;     // a host call is running
  bool played_ = false;    // the host call has ended
  bool measures_ = false;  // the host call is the allreduce of measure()
  std::int64_t largest_ = 0;
  bool broken_ = false;  // nothing new is started: the communicator is about to be cancelled
};

}  // namespace tutti::staged
