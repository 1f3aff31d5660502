// Adapter: one RDMA device used by this rank, with a completion queue for all peers and the descriptors to sleep on.
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
  /// Opens the device, with a completion queue for `pairs` peers. Throws Error{resource}.
  Adapter(const std::string& device, std::size_t pairs);
  ~Adapter() { memories_->close(); }
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const std::string& name() const noexcept { return name_; }
  ibv_context* context() const noexcept { return context_.get(); }
  ibv_pd* domain() const noexcept { return domain_.get(); }
  ibv_cq* queue() const noexcept { return queue_.get(); }
  /// True if the device is software (soft-RoCE). This host's cores then process its packets, so waiting threads must
  /// yield.
  bool software() const noexcept { return software_; }

  Memories& memories() noexcept { return *memories_; }
  /// Registers memory for one message; null if that fails. If the limit of locked memory is reached, uses on-demand
  /// paging where the device supports it.
  Region open(ConstBytes memory, int access) noexcept;

  /// Readable when a completion has arrived since arm().
  int fd() const noexcept { return channel_->fd; }
  /// Readable when the device has an asynchronous event, for next_event().
  int events_fd() const noexcept { return context_->async_fd; }

  /// Polls the completion queue; returns the completions, at most into.size().
  std::span<ibv_wc> poll(std::span<ibv_wc> into) noexcept {
    const int count = ibv_poll_cq(queue_.get(), static_cast<int>(into.size()), into.data());
    if (count == 0) return {};
    if (count < 0) refused(EIO, "to tell what has completed");
    armed_ = false;
    return into.first(static_cast<std::size_t>(count < 0 ? 0 : count));
  }
  /// Records that the device refused a request: an errno, and a clause that says what for. Only the first refusal
  /// counts, and it is reported once. Call refusing() after poll(), because completions may have a better reason.
  void refused(int error, const char* what) noexcept;
  bool refusing() const noexcept { return refused_.has_value(); }
  std::string take_refusal();
  /// Declares that the device is broken and that other devices have taken over its work. Later refusals are ignored.
  void leave_out() noexcept { left_out_ = true; }
  /// Makes fd() report the next completion; it may not report one that has arrived already. Returns false if the device
  /// refuses. Calls the device only if a completion has arrived or fd() was readable since the last call.
  bool arm() noexcept;
  void rung() noexcept { armed_ = false; }

  struct Event {
    ibv_event_type type = IBV_EVENT_DEVICE_FATAL;
    int port = 0;  ///< for a port's event
  };
  bool next_event(Event& event) noexcept;

 private:
  std::string name_;
  Context context_;
  Domain domain_;
  Channel channel_;
  Queue queue_;
  std::shared_ptr<Memories> memories_;
  bool on_demand_ = false;  // memory need not be locked (on-demand paging)
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
