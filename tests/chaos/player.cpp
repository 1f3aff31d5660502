#include "tests/chaos/player.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "tests/chaos/call.hpp"
#include "tests/chaos/survival.hpp"

namespace tutti::testing {
namespace {

constexpr std::chrono::seconds gate_limit{60};

/// A call in flight, and the check of its result.
struct Pending {
  int group;
  std::string what;
  Work work;
  std::function<std::string()> check;
};

class Player {
 public:
  Player(const Scenario& scenario, int rank, Gate& gate, Report& report)
      : scenario_(scenario),
        rank_(rank),
        gate_(gate),
        report_(report),
        dice_(scenario.seed, 1000 + static_cast<std::uint64_t>(rank)),
        groups_(scenario.groups.size()) {}

  void run(Communicator world) {
    groups_[0] = std::move(world);
    play_acts();
    if (scenario_.shrinks) Survival(scenario_, rank_, gate_, report_).go_on(group_at(0));
  }

 private:
  static constexpr std::size_t most_pending = 12;

  void play_acts() {
    std::size_t next = 0;
    while (scenario_.may_fail() && next < scenario_.acts.size() && scenario_.acts[next].what == Act::What::make_group) {
      make_group(scenario_.acts[next].group);
      if (!gate_.pass(next++, rank_, scenario_.ranks, report_.ends.empty(), gate_limit)) return;
    }
    for (; next < scenario_.acts.size(); ++next) {
      play(scenario_.acts[next]);
      while (pending_.size() > most_pending || (!pending_.empty() && dice_.percent(25))) wait_for_one();
    }
    while (!pending_.empty()) wait_for_one();
  }

  Communicator& group_at(int index) { return *groups_[static_cast<std::size_t>(index)]; }
  const GroupPlan& plan_of(int index) const { return scenario_.groups[static_cast<std::size_t>(index)]; }

  // ---- groups

  void make_group(int index) {
    const GroupPlan& plan = plan_of(index);
    const int in_parent = plan_of(plan.parent).rank_of(rank_);
    if (in_parent < 0 || !groups_[static_cast<std::size_t>(plan.parent)]) return;
    try {
      groups_[static_cast<std::size_t>(index)] = made(plan, index, group_at(plan.parent), in_parent);
    } catch (const Error& error) {
      report_.fail(plan.by == GroupPlan::By::group ? index : plan.parent, error,
                   "making group " + std::to_string(index));
    }
  }

  std::optional<Communicator> made(const GroupPlan& plan, int index, Communicator& parent, int in_parent) {
    std::vector<int> ranks;
    for (const int member : plan.members) ranks.push_back(plan_of(plan.parent).rank_of(member));
    switch (plan.by) {
      case GroupPlan::By::split: {
        const int color = plan.colors[static_cast<std::size_t>(in_parent)];
        auto mine = parent.split(color);
        return color == 0 ? std::move(mine) : std::nullopt;
      }
      case GroupPlan::By::subgroup: return parent.subgroup(ranks);
      case GroupPlan::By::dup: return parent.dup();
      default:
        if (std::ranges::count(ranks, in_parent) == 0) return std::nullopt;
        return parent.group(ranks, "group " + std::to_string(index));
    }
  }

  // ---- acts

  void play(const Act& act) {
    if (act.what == Act::What::make_group) return make_group(act.group);
    if (!groups_[static_cast<std::size_t>(act.group)]) return;
    try {
      switch (act.what) {
        case Act::What::messages: return play_messages(act);
        case Act::What::any_source: return play_any_source(act);
        default: return play_calls(act);
      }
    } catch (const Error& error) {
      report_.fail(act.group, error, "starting act " + std::to_string(act.tag));
    }
  }

  void add(const Act& act, std::string what, Work work, std::function<std::string()> check) {
    pending_.push_back(
        {act.group, "act " + std::to_string(act.tag) + ", " + std::move(what), std::move(work), std::move(check)});
  }

  void play_calls(const Act& act) {
    auto calls = std::make_shared<std::deque<PlayedCall>>();
    std::vector<Collective> list;
    for (CallPlan plan : act.calls) {
      const CallPlan& kept = *plans_.emplace_back(std::make_unique<CallPlan>(plan));
      list.push_back(calls->emplace_back(group_at(act.group), kept).collective());
    }
    const CallPlan& first = act.calls.front();
    std::string what = std::string(name(first.kind)) + (first.variable ? "v " : " ") + std::string(name(first.dtype)) +
                       " " + std::string(name(first.op.op)) + " count " + std::to_string(first.count);
    if (act.calls.size() > 1) what += " and " + std::to_string(act.calls.size() - 1) + " more";
    Work work = act.what == Act::What::batch ? group_at(act.group).launch(std::span<const Collective>(list))
                                             : group_at(act.group).launch(list.front());
    add(act, std::move(what), std::move(work), [calls] {
      for (PlayedCall& call : *calls)
        if (std::string bad = call.check(); !bad.empty()) return std::string(name(call.collective().kind)) + ": " + bad;
      return std::string();
    });
  }

  void send(const Act& act, Communicator& group, const MessagePlan& message) {
    const CallPlan& data = message.data;
    auto bytes = std::make_shared<std::vector<std::byte>>(input_of(data, message.from, 0, data.count));
    Work work = group.send(ConstBuffer(bytes->data(), data.count, data.dtype), message.to, act.tag);
    add(act, "send to " + std::to_string(message.to), std::move(work), [bytes] { return std::string(); });
  }

  void play_messages(const Act& act) {
    Communicator& group = group_at(act.group);
    for (const MessagePlan& message : act.messages) {
      const CallPlan& data = message.data;
      if (message.from == group.rank()) send(act, group, message);
      if (message.to != group.rank()) continue;
      auto bytes = std::make_shared<std::vector<std::byte>>(data.count * size_of(data.dtype));
      Work work = group.recv(Buffer(bytes->data(), data.count, data.dtype), message.from, act.tag);
      add(act, "recv from " + std::to_string(message.from), std::move(work), [bytes, &message] {
        const bool right = *bytes == input_of(message.data, message.from, 0, message.data.count);
        return std::string(right ? "" : "the message is not the one sent");
      });
    }
  }

  void play_any_source(const Act& act) {
    Communicator& group = group_at(act.group);
    auto seen = std::make_shared<std::vector<int>>();
    for (const MessagePlan& message : act.messages) {
      const CallPlan& data = message.data;
      if (message.from == group.rank()) send(act, group, message);
      if (message.to != group.rank()) continue;
      auto bytes = std::make_shared<std::vector<std::byte>>(data.count * size_of(data.dtype));
      const Value<int> value = group.recv_any(Buffer(bytes->data(), data.count, data.dtype), act.tag);
      add(act, "recv_any", value, [bytes, value, seen, &act] { return check_any(act, value.wait(), *bytes, *seen); });
    }
  }

  static std::string check_any(const Act& act, int from, const std::vector<std::byte>& bytes, std::vector<int>& seen) {
    const auto found = std::ranges::find(act.messages, from, &MessagePlan::from);
    if (found == act.messages.end()) return "rank " + std::to_string(from) + " has sent nothing";
    if (std::ranges::count(seen, from) > 0) return "two messages of rank " + std::to_string(from);
    seen.push_back(from);
    const bool right = bytes == input_of(found->data, from, 0, found->data.count);
    return right ? "" : "the message is not the one that rank " + std::to_string(from) + " sent";
  }

  // ---- waiting

  void wait_for_one() {
    std::size_t chosen = static_cast<std::size_t>(dice_.below(static_cast<int>(pending_.size())));
    if (dice_.percent(20)) {
      std::vector<Work> works;
      for (const Pending& one : pending_) works.push_back(one.work);
      chosen = wait_any(works, Seconds(no_deadline)).value_or(chosen);
    } else if (dice_.percent(20)) {
      if (!polled(chosen)) return;
    }
    Pending one = std::move(pending_[chosen]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(chosen));
    try {
      one.work.wait();
      if (std::string bad = one.check(); !bad.empty()) report_.wrong.push_back(one.what + ": " + bad);
    } catch (const Error& error) {
      report_.fail(one.group, error, one.what);
    }
  }

  // Looks at one call for a moment; an error is thrown again by wait().
  bool polled(std::size_t chosen) {
    try {
      return pending_[chosen].work.wait_for(Seconds(dice_.below(3) * 0.001));
    } catch (const Error&) {
      return true;
    }
  }

  const Scenario& scenario_;
  int rank_;
  Gate& gate_;
  Report& report_;
  Dice dice_;
  std::vector<std::optional<Communicator>> groups_;
  std::vector<std::unique_ptr<CallPlan>> plans_;  // before pending_, whose calls refer to them
  std::vector<Pending> pending_;
};

void play_rank(const Scenario& scenario, const Bootstrap& bootstrap, Gate& gate, Report& report) {
  std::optional<Communicator> world;
  try {
    world = Communicator::connect(bootstrap);
  } catch (const Error& error) {
    report.fail(-1, error, "connecting");
    report.is_out = true;
    return;
  }
  Player(scenario, bootstrap.rank, gate, report).run(std::move(*world));
}

}  // namespace

Report play(const Scenario& scenario, int process, const Bootstrap& bootstrap, Gate& gate) {
  Report report;
  try {
    if (process < scenario.ranks) {
      play_rank(scenario, bootstrap, gate, report);
    } else {
      Survival(scenario, process, gate, report).join();
    }
  } catch (const std::exception& error) {
    report.wrong.push_back(std::string("an exception: ") + error.what());
  }
  gate.leave(process);
  report.is_whole = true;
  return report;
}

}  // namespace tutti::testing
