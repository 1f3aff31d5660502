// CollectiveOperation: one collective of one communicator, in the hands of one of its backends.
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
#include "transports/backend.hpp"

namespace tutti {

/// Keeps the call while the backend works on it, and ends the communicator when it fails. Used again for later calls.
class CollectiveOperation final : public Operation, private Call {
 public:
  struct Parts {
    Collective& call;              ///< whose counts are taken over
    const Route* route = nullptr;  ///< null: not chosen yet
    Signature summary;             ///< that messages carry
    Clock::duration allowed{};
    bool on_device = false;        ///< come_after() was called for it
    Router* router = nullptr;      ///< where it is not
    std::string_view wanted = {};  ///< by the caller
  };
  using Spare = Pool<CollectiveOperation>;
  /// When the call is over and its handles have gone, this goes back to `spare`, which `home.keeper` keeps.
  void prepare(Home&& home, Spare& spare, const Parts& parts);

  /// Of a scalar: the value moves in here, and the result is found here. Before the launch.
  void keep_value() noexcept;

  /// What became of a call in its backend's start().
  struct Begun {
    bool is_over = false;                ///< it has ended well
    std::exception_ptr thrown = {};      ///< by its start
    std::optional<Status> failure = {};  ///< it has ended with this
    std::optional<Status> trouble = {};  ///< said of it meanwhile
  };
  /// Gives the call to its backend before the rest is prepared. Where it has ended well, this serves the next one; else
  /// it has to be carried on. Token held.
  Begun start_unprepared(GroupState& group, const Parts& parts);
  /// Prepares the rest, and goes on instead of start(). Token held.
  bool carry_on(Home&& home, Spare& spare, const Parts& parts, const Begun& begun);

  /// Starts those calls of a communicator that waited for what they have by now, in their order. Token held.
  static void start_those_ready(GroupState& group);

  std::string where() const override;
  void cancel(const Status& why) noexcept override;
  bool look() override;

 private:
  bool over_wire() const noexcept override { return route_ != nullptr && route_->own_plans; }
  void prepare_all_but_call(Home&& home, Spare& spare, const Parts& parts);
  void take_over(const Parts& parts);
  void begin() override;
  void verify();
  bool is_ready();
  void start_call();
  void give_to_backend();
  void finish_unstarted(const Status& why);
  // of its backend
  void trouble(const Status& why) override;
  void enqueued(const Event& end) override { note_enqueued(end); }
  void abandoned() override { keep_owner_for_ever(); }
  void ended(const Status& status) override;
  void verified(const Status& status);
  void retire() noexcept override;

  Spare* spare_ = nullptr;
  const Route* route_ = nullptr;  // null: router_ will know
  Router* router_ = nullptr;
  std::string wanted_;
  Begun* begun_ = nullptr;                      // while start_unprepared() is in the backend
  bool verified_ = false;                       // or it need not be
  std::unique_ptr<Verification> verification_;  // TUTTI_VERIFY=full
};

}  // namespace tutti
