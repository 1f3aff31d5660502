// PointToPoint: a send, a recv, or both at once.
#pragma once

#include <string>
#include <vector>

#include "collectives/operation.hpp"
#include "collectives/pool.hpp"

namespace tutti {

/// Tags of sends live on a lane that no collective uses.
inline constexpr std::uint32_t point_to_point_lane = 0xfffffffeu;

/// Of a Collective{kind send}: `in` goes to rank `to`, `out` comes from rank `from`; -1: not this half. The
/// user's tag is `tag`. See Collective's own fields of these names.
class PointToPoint final : public Operation {
 public:
  using Spare = Pool<PointToPoint>;
  /// As CollectiveOperation's.
  void prepare(Home&& home, Spare& spare, const Collective& call, Clock::duration allowed);

  std::string where() const override;

 private:
  void begin() override;
  void retire() noexcept override;
  void half_done(const Status& status);

  Spare* spare_ = nullptr;
  Collective call_;
  std::vector<std::byte> copy_;  // of `in`, where `out` is the same memory
  int open_ = 0;
  Status failure_;
};

}  // namespace tutti
