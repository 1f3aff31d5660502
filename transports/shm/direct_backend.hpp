// DirectBackend: collectives over memory that the ranks of a host share; the Backend "shm".
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transports/backend.hpp"
#include "transports/shm/engines.hpp"

namespace tutti::shm {

/// Takes calls in their order, one at a time: they share a slab, and all ranks play them in the same order.
class DirectBackend final : public Backend {
 public:
  static constexpr std::string_view own_name = "shm";

  /// As a Room.
  DirectBackend(std::shared_ptr<Commons> commons, const Group& group, std::vector<int> locals, bool all_read_all);

  std::string_view name() const noexcept override { return own_name; }
  Status supports(const Collective& call, std::string_view algorithm) const override;
  const void* token(Kind kind, std::string_view algorithm) const override;
  void start(Call& call) override;
  void cancel(const Status& why) noexcept override;
  std::string where(std::uint32_t sequence) const override;

  bool progress() override;
  Fds fds() const noexcept override { return {}; }  // the wire's doorbell rings for this one too
  bool arm(bool on) override;

 private:
  // As engine_names(), and what comes first.
  enum class Engine { by_size, packets, one_shot, rounds, direct, cma, meeting };
  static std::string_view name_of(Engine engine) noexcept;
  static Engine named_by(const void* token) noexcept;
  Engine first_engine(const DirectCall& call, Engine wanted) const;
  void play();
  void begin_next();
  bool step();
  void fail(const Status& status);
  void end();
  void withdraw(const Status& why) noexcept;
  bool gone(int peer) const noexcept;

  Room room_;
  std::vector<Call*> queue_;
  std::size_t next_ = 0;  // in the queue; those before have ended
  bool begun_ = false;    // the next one
  bool failed_ = false;   // a call has; the communicator ends, and the calls that wait are about to be cancelled
  DirectCall call_;
  const void* token_ = nullptr;  // call_'s
  Engine engine_ = Engine::packets;
  EngineTask task_;
  Awaited awaited_;
  std::uint64_t calls_ = 0, rounds_ = 0;  // so far
  int late_calls_ = 0;                    // small ones, one after the other, that did not end in start()
  int patience_ = 0;                      // looks until it is asked whether the awaited rank has left
};

/// The engines by the names that rules may use; the first is "", the choice by size.
std::span<const std::string_view> engine_names(Kind kind);

}  // namespace tutti::shm
