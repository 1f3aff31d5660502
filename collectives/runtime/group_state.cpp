// GroupState: see operation.hpp.
#include <algorithm>

#include "collectives/runtime/operation.hpp"

namespace tutti {

std::uint32_t GroupState::begin(Signature call) {
  if (++sequence_ == 0) ++sequence_;  // 0 is reserved for point-to-point calls
  // Sizes are powers of two, so what is remembered keeps its place.
  if (sequence_ == recent_.size() && sequence_ < most_recent) recent_.resize(2 * recent_.size());
  recent_[sequence_ & (recent_.size() - 1)] = {sequence_, call};
  return sequence_;
}

void GroupState::completed(const CallRecord& call) {
  if (call.sequence != 0 && static_cast<std::int32_t>(call.sequence - completed_.sequence) > 0) completed_ = call;
}

bool GroupState::begun(std::uint32_t sequence, Signature& call) const {
  const CallRecord& record = recent_[sequence & (recent_.size() - 1)];
  if (record.sequence != sequence || sequence == 0) return false;
  call = record.call;
  return true;
}

void GroupState::note_question(int world_rank, Clock::time_point now) {
  Answer& answer = answers_[world_rank];
  if (answer.asked == Clock::time_point{}) answer.asked = now;
}

void GroupState::note_answer(int world_rank, std::uint32_t sequence, bool made, const CallRecord& completed) {
  if (group_.rank_of(world_rank) < 0) return;
  Answer& answer = answers_[world_rank];
  const bool is_first = answer.at == Clock::time_point{};
  answer.at = Clock::now();
  answer.asked = {};
  answer.is_silent = false;
  answer.completed = completed;
  if (made && (is_first || !answer.has_made(sequence))) answer.made = sequence;
  if (!made && is_first) answer.made = sequence - 1;
}

void GroupState::note_silence(int world_rank) {
  if (group_.rank_of(world_rank) < 0) return;
  Answer& answer = answers_[world_rank];
  answer.at = Clock::now();
  answer.is_silent = true;
}

const GroupState::Answer* GroupState::answer_of(int world_rank, Clock::time_point since) const {
  const auto found = answers_.find(world_rank);
  return found != answers_.end() && found->second.at >= since && !found->second.is_silent ? &found->second : nullptr;
}

int GroupState::end_of_chain(std::uint32_t sequence, Clock::time_point since, Clock::time_point now) const {
  constexpr Seconds to_answer{1.0};
  int silent = -1;
  for (const auto& [rank, answer] : answers_) {
    const bool is_fresh = answer.at >= since;
    if (is_fresh && !answer.is_silent && !answer.has_made(sequence)) return rank;
    const bool waits = answer.asked != Clock::time_point{} && answer.asked >= since && now - answer.asked > to_answer;
    if (silent < 0 && (waits || (is_fresh && answer.is_silent))) silent = rank;
  }
  return silent;
}

std::vector<int> GroupState::ranks_heard_of() const {
  std::vector<int> ranks;
  for (const auto& [rank, answer] : answers_) ranks.push_back(rank);
  return ranks;
}

GroupState::Late& GroupState::late(std::uint32_t sequence) {
  if (late_.sequence != sequence) {
    late_.sequence = sequence;
    late_.askers.clear();
    late_.told = -1;
  }
  return late_;
}

Status GroupState::poison() const {
  std::lock_guard lock(mutex_);
  return poison_;
}

bool GroupState::poison_with(const Status& why) {
  std::lock_guard lock(mutex_);
  if (poisoned_.load(std::memory_order_relaxed)) return false;
  poison_ = why;
  poisoned_.store(true, std::memory_order_release);
  return true;
}

void GroupState::add(std::weak_ptr<Backend> backend) {
  std::lock_guard lock(mutex_);
  backends_.push_back(std::move(backend));
}

std::vector<std::shared_ptr<Backend>> GroupState::backends() const {
  std::vector<std::shared_ptr<Backend>> alive;
  std::lock_guard lock(mutex_);
  for (const auto& weak : backends_)
    if (auto backend = weak.lock()) alive.push_back(std::move(backend));
  return alive;
}

}  // namespace tutti
