// CollectiveOperation: one collective call, performed by a backend.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/pool.hpp"
#include "collectives/runtime/route.hpp"
#include "collectives/runtime/verification.hpp"
#include "tutti/provider/backend.hpp"

namespace tutti {

/// Keeps the call while the backend performs it, and fails the communicator if the call fails. Reused for later
/// calls.
class CollectiveOperation final : public Operation, private Call {
 public:
  struct Parts {
    Collective& call;              ///< counts are moved out of it
    const Route* route = nullptr;  ///< null: not chosen yet
    Signature summary;             ///< sent with messages to verify the call
    Clock::duration allowed{};
    bool on_device = false;        ///< come_after() was called for it
    Router* router = nullptr;      ///< asked when `route` is null
    std::string_view wanted = {};  ///< requested by the caller
  };
  using Spare = Pool<CollectiveOperation>;
  /// Returns to `spare`, which `home.keeper` keeps alive, when the call is done and all handles are dropped.
  void prepare(Home&& home, Spare& spare, const Parts& parts);

  /// For a call on one scalar: the value is stored in this object, and so is the result. Before the launch.
  void keep_value() noexcept;

  /// The state of a call after its backend's start().
  struct Begun {
    bool is_over = false;                ///< it has completed successfully
    std::exception_ptr thrown = {};      ///< thrown by start()
    std::optional<Status> failure = {};  ///< it has ended with this failure
    std::optional<Status> trouble = {};  ///< reported by the backend meanwhile
  };
  /// Starts the call in its backend before the operation is prepared. If the call completes at once, this object is
  /// reused for the next call; otherwise carry_on() must follow. Token held.
  Begun start_unprepared(GroupState& group, const Parts& parts);
  /// Prepares the operation and continues the call as start() would. Token held.
  bool carry_on(Home&& home, Spare& spare, const Parts& parts, const Begun& begun);

  /// Starts the waiting calls of a communicator, in order, up to the first one that lacks its route or verification.
  /// Token held.
  static void start_those_ready(GroupState& group);

  std::string where() const override;
  void cancel(const Status& why) noexcept override;
  bool look() override;

 private:
  bool over_wire() const noexcept override { return route_ != nullptr && route_->own_plans; }
  void prepare_all_but_call(Home&& home, Spare& spare, const Parts& parts);
  void take_over(const Parts& parts);
  void begin() override;
  bool takes() const noexcept override;
  void verify();
  bool is_ready();
  void start_call();
  void give_to_backend();
  void finish_unstarted(const Status& why);
  // Call: reports from the backend
  void trouble(const Status& why) override;
  void enqueued(const Event& end) override { note_enqueued(end); }
  void abandoned() override { keep_owner_for_ever(); }
  void ended(const Status& status) override;
  void verified(const Status& status);
  void retire() noexcept override;

  Spare* spare_ = nullptr;
  const Route* route_ = nullptr;  // null: to be asked from router_
  Router* router_ = nullptr;
  std::string wanted_;
  Begun* begun_ = nullptr;                      // set while start_unprepared() is in the backend's start()
  bool verified_ = false;                       // verification has succeeded or is not needed
  std::unique_ptr<Verification> verification_;  // only with TUTTI_VERIFY=full
};

}  // namespace tutti
