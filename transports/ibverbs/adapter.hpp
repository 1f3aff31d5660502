// Adapter: one RDMA device as this rank uses it: one completion queue for all peers, and what wakes a sleeper.
#pragma once

#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transports/ibverbs/handles.hpp"
#include "transports/ibverbs/memories.hpp"

namespace tutti::ibverbs {

class Adapter {
 public:
  /// For `pairs` queue pairs. Throws Error{resource}.
  Adapter(const std::string& device, std::size_t pairs);
  ~Adapter() { memories_->close(); }
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const std::string& name() const noexcept { return name_; }
  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* domain() const noexcept { return domain_.get(); }
  ibv_cq* queue() const noexcept { return queue_.get(); }
  /// No card: its packets are made by this host's cores, which whoever waits has to leave to it.
  bool software() const noexcept { return software_; }

  Memories& memories() noexcept { return *memories_; }
  /// Registers memory for one message; null where it cannot be. Without locking it, where the limit for that is reached
  /// and the device can do without.
  Region open(ConstBytes memory, int access) noexcept;

  /// Readable when something has completed since arm().
  int fd() const noexcept { return channel_->fd; }
  /// Readable when the device has news of its own, for next_event().
  int events_fd() const noexcept { return context_->async_fd; }

  /// Completions that are there, as many as fit.
  std::span<ibv_wc> poll(std::span<ibv_wc> into) noexcept {
    const int count = ibv_poll_cq(queue_.get(), static_cast<int>(into.size()), into.data());
    if (count == 0) return {};
    if (count < 0) refused(EIO, "to tell what has completed");
    armed_ = false;
    return into.first(static_cast<std::size_t>(count < 0 ? 0 : count));
  }
  /// The device has taken no more of something, as an errno and a clause; the first such news, told once. Whoever lost
  /// by it may learn better reasons from completions, so ask after these.
  void refused(int error, const char* what) noexcept;
  bool refusing() const noexcept { return refused_.has_value(); }
  std::string take_refusal();
  /// It is broken, and others do what it did: what it refuses from now on is no news.
  void leave_out() noexcept { left_out_ = true; }
  /// From now on fd() tells of the next completion; one that is there already may go untold. Asks the device only
  /// where something has come, or fd() has rung, since it was asked last.
  bool arm() noexcept;
  void rung() noexcept { armed_ = false; }

  struct Event {
    ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
    int port = 0;  ///< where it is about one
  };
  bool next_event(Event& event) noexcept;

 private:
  std::string name_;
  Context context_;
  Domain domain_;
  Channel channel_;
  Queue queue_;
  std::shared_ptr<Memories> memories_;
  bool on_demand_ = false;  // memory need not be locked
  bool closed_told_ = false;
  struct Refusal {
    int error;
    const char* what;
  };
  std::optional<Refusal> refused_;
  bool refusal_told_ = false, left_out_ = false, software_ = false;
  bool armed_ = false;
};

}  // namespace tutti::ibverbs
