// PointToPoint: a send, a recv, or both at once.
#pragma once

#include <string>
#include <vector>

#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/pool.hpp"
#include "collectives/runtime/seekers.hpp"
#include "transports/staged/exchanges.hpp"

namespace tutti {

/// Tags of sends live on a lane that no collective uses.
inline constexpr std::uint32_t point_to_point_lane = 0xfffffffeu;
/// Those of device memory, which go in slices, have one of their own.
inline constexpr std::uint32_t device_lane = 0xfffffffdu;

/// Of a Collective{kind send}: `in` goes to rank `to`, `out` comes from rank `from`; -1: not this half. The
/// user's tag is `tag`. See Collective's own fields of these names. From anyone: the rank of whom is the result (see
/// Value).
class PointToPoint final : public Operation, private Call, private Seeker {
 public:
  using Spare = Pool<PointToPoint>;
  struct Parts {
    const Collective& call;
    Clock::duration allowed{};
    staged::Exchanges* exchanges = nullptr;  ///< of a call on device memory, for which come_after() was called
  };
  /// As CollectiveOperation's.
  void prepare(Home&& home, Spare& spare, const Parts& parts);

  std::string where() const override;
  void cancel(const Status& why) noexcept override;
  bool look() override;
  bool take_back() override;

 private:
  void begin() override;
  void begin_on_device(const Tag& tag);
  // of the exchanges
  void trouble(const Status& why) override { in_trouble(why); }
  void abandoned() override { keep_owner_for_ever(); }
  void ended(const Status& status) override { finish(status); }
  void retire() noexcept override;
  void half_done(const Status& status);
  Tag tag() const noexcept;
  Bytes landing() noexcept;
  void receive(int world);
  bool seek() override;
  bool withdraw();

  Spare* spare_ = nullptr;
  staged::Exchanges* exchanges_ = nullptr;
  std::vector<std::byte> copy_;  // of `in`, where `out` is the same memory
  int open_ = 0;
  bool seeks_ = false;  // it is one of the context's seekers
  Status failure_;
};

}  // namespace tutti
