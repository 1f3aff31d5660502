// PointToPoint: a send, a recv, or both at once.
#pragma once

#include <string>
#include <vector>

#include "collectives/operation.hpp"

namespace tutti {

/// Tags of sends live on a lane that no collective uses.
inline constexpr std::uint32_t point_to_point_lane = 0xfffffffeu;

/// Of a Collective{kind send}: `in` goes to rank `to`, `out` comes from rank `from`; -1: not this half. The
/// user's tag is `tag`. See Collective's own fields of these names.
class PointToPoint final : public Operation {
 public:
  PointToPoint(std::shared_ptr<Context> context, std::shared_ptr<GroupState> group, Collective call, Deadline until);
  std::string where() const override;

 private:
  void begin() override;
  void half_done(const Status& status);

  Collective call_;
  std::vector<std::byte> copy_;  // of `in`, where `out` is the same memory
  int open_ = 0;
  Status failure_;
};

}  // namespace tutti
