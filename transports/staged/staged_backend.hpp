// StagedBackend: collectives on device memory by way of the host: cut into slices, which are copied to pinned slots,
// done there by any host backend, and copied back, three slices at a time at three stages.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transports/backend.hpp"
#include "transports/core/accelerator.hpp"
#include "transports/staged/slices.hpp"

namespace tutti::staged {

/// What it stands on; all of it is asked for at the first call, so that programs without devices pay nothing.
struct Host {
  std::function<Accelerator&()> accelerator;
  /// Collectives on host memory, of this communicator's ranks in their order, which nobody else uses.
  std::function<std::unique_ptr<Backend>()> backend;
  /// Host memory that this backend is fastest with.
  std::function<std::shared_ptr<void>(std::size_t)> allocate;
  std::size_t slot_bytes = 0;  ///< of a half of a slot; a setting, so equal on all ranks
};

/// Takes calls in their order, and plays one slice at a time on the host: equal tags never meet. Pinned memory: three
/// slots of two halves, whatever the size of the calls.
class StagedBackend final : public Backend {
 public:
  static constexpr std::string_view own_name = "staged";

  StagedBackend(const Group& group, Host host);
  ~StagedBackend() override;

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;
  std::string where(std::uint32_t sequence) const override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }  // the host backend's transport rings for this one too
  bool arm(bool on) override { return !inner_ || inner_->arm(on); }
  bool polled() const noexcept override;

 private:
  static constexpr std::size_t slot_count = 3;

  struct Memory {
    std::shared_ptr<void> slots, pinned;  // the latter goes first
  };
  // Memory of a device that is used again, and not freed before this: freeing may wait for the whole device.
  struct Scratch {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };
  // Two streams of a device, one each way, and what tells that a slot's copies are done.
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
    std::size_t fetched = 0;           // slices whose copy to the host is on its stream
    bool is_ready = false;             // what the caller's stream had is done
    Scratch copied;                    // of `in`, where `out` overwrites what is still to be read
    const std::byte* source = nullptr;
    bool is_last(std::size_t number) const noexcept { return number + 1 == slicing->slices(); }
  };
  // The call that is under way on the host.
  struct OnHost final : Call {
    explicit OnHost(StagedBackend& backend) : backend_(backend) {}
    void trouble(const Status& why) override { backend_.trouble_on_host(why); }
    void ended(const Status& status) override { backend_.ended_on_host(status); }
    StagedBackend& backend_;
  };
  // What a slot has, from its first copy to its last one.
  struct Staged {
    Playing* of = nullptr;
    Side* side = nullptr;
    std::size_t number = 0;
    Slice slice;
    std::size_t slot = 0;
    bool fetching = false, storing = false;  // a copy is on its stream, as far as is known
  };

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

  std::deque<std::unique_ptr<Playing>> calls_;  // in their order; the first one's slices are the oldest
  std::size_t fetching_ = 0;                    // in calls_: the one whose slices are being fetched
  std::deque<Staged> staged_;                   // oldest first; those before playing_ are being stored
  std::size_t playing_ = 0;                     // in staged_: the next one to play, or the one that plays
  std::uint64_t slices_ = 0;                    // so far

  bool waits_ = false;     // for a caller's stream: nothing tells when that gets on
  bool plays_ = false;     // a host call is under way
  bool played_ = false;    // it has ended since
  bool measures_ = false;  // that one is measure()'s
  std::int64_t largest_ = 0;
  bool broken_ = false;  // nothing more is begun: the communicator is about to be cancelled
};

}  // namespace tutti::staged
