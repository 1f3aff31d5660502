// PointToPoint: a send, a receive, or both at the same time.
#pragma once

#include <string>
#include <vector>

#include "collectives/runtime/any_source.hpp"
#include "collectives/runtime/operation.hpp"
#include "collectives/runtime/pool.hpp"
#include "transports/staged/exchanges.hpp"

namespace tutti {

/// The value of Tag::lane for point-to-point messages; no collective uses it.
inline constexpr std::uint32_t point_to_point_lane = 0xfffffffeu;
/// The value of Tag::lane for messages of device memory, which are sent in slices.
inline constexpr std::uint32_t device_lane = 0xfffffffdu;

/// Performs a Collective of kind send: sends `in` to rank `to`, and receives `out` from rank `from`. A rank of -1 means
/// no send, or no receive. `tag` is the user's tag. With `from_any` the work's value is the sender's rank (see Value).
class PointToPoint final : public Operation, private Call, private AnySourceReceive {
 public:
  using Spare = Pool<PointToPoint>;
  struct Parts {
    const Collective& call;
    Clock::duration allowed{};
    staged::Exchanges* exchanges = nullptr;  ///< performs a call on device memory; null: host memory
    const char* label = nullptr;             ///< CallOptions::label
  };
  /// As CollectiveOperation::prepare().
  void prepare(Home&& home, Spare& spare, const Parts& parts);

  std::string where() const override;
  void partners(std::vector<int>& ranks) const override;
  void cancel(const Status& why) noexcept override;
  bool look() override;
  bool take_back() override;

 private:
  void begin() override;
  RecordEntry entry(std::uint32_t number) const noexcept override;
  bool takes() const noexcept override { return what.to < 0; }
  void begin_on_device(const Tag& tag);
  // Call: reports from the exchanges
  void trouble(const Status& why) override { in_trouble(why); }
  void abandoned() override { keep_owner_for_ever(); }
  void ended(const Status& status) override { finish(status); }
  void retire() noexcept override;
  void half_done(const Status& status);
  Tag tag() const noexcept;
  int world(int rank) const noexcept;  // the world rank of a member; negative numbers stay
  Bytes landing() noexcept;
  void receive(int world);
  bool match() override;
  bool withdraw();

  Spare* spare_ = nullptr;
  staged::Exchanges* exchanges_ = nullptr;
  std::vector<std::byte> copy_;  // copy of `in` if `out` is the same memory
  int open_ = 0;
  bool unmatched_ = false;  // true: this receive is registered with the context's AnySource
  Status failure_;
};

}  // namespace tutti
