// wait_any: waits for the first of several Works.
#include <algorithm>

#include "transports/core/checked.hpp"
#include "transports/core/job_turns.hpp"
#include "tutti/work.hpp"

namespace tutti {
namespace {

/// Completes when one of `states` does. Lives on the stack of the waiting thread, which alone completes it.
class AnyOf final : public WorkState {
 public:
  AnyOf(std::span<WorkState* const> states) : states_(states) { prepare(nullptr); }

  bool settled() override {
    if (!done() && std::ranges::any_of(states_, &WorkState::done)) complete({});
    return done();
  }
  bool look() override {
    const bool moved = states_[next_++ % states_.size()]->look();
    settled();
    return moved;
  }

 private:
  std::span<WorkState* const> states_;
  std::size_t next_ = 0;
};

}  // namespace

std::optional<std::size_t> wait_any(std::span<const Work> works, Seconds limit) {
  const Seconds most = checked_seconds(limit, "wait_any: the limit");
  const auto first_done = [&]() -> std::optional<std::size_t> {
    const auto found = std::ranges::find_if(works, &Work::done);
    return found == works.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - works.begin()));
  };
  std::vector<WorkState*> all;  // sorted, so that the works of one driver are adjacent
  for (const Work& work : works)
    if (!work.done()) all.push_back(work.state_);
  if (all.size() < works.size() || all.empty()) return first_done();
  const auto driver = [](const WorkState* state) { return state->driver_.get(); };
  std::ranges::stable_sort(all, std::less<Driver*>(), driver);
  const Deadline until = deadline_in(most);
  const bool one_job = driver(all.front()) == driver(all.back());
  Seconds turn = first_turn;
  do {
    for (auto begin = all.begin(); begin != all.end();) {
      const auto end = std::upper_bound(begin, all.end(), driver(*begin), [&](Driver* one, const WorkState* state) {
        return std::less<Driver*>()(one, driver(state));
      });
      AnyOf any({begin, end});
      if (!any.settled()) driver(*begin)->drive(any, one_job ? until : std::min(until, deadline_in(turn)));
      if (const auto found = first_done()) return found;
      begin = end;
    }
    turn = std::min(2 * turn, longest_turn);
  } while (Clock::now() < until);
  return std::nullopt;
}

}  // namespace tutti
