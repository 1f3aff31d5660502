// GroupState: see operation.hpp.
#include <algorithm>

#include "collectives/runtime/operation.hpp"

namespace tutti {

std::uint32_t GroupState::begin(Signature call) {
  if (++sequence_ == 0) ++sequence_;  // 0 is reserved for point-to-point calls
  // Doubling leaves the records at their indices, since all numbers so far are smaller than the old size.
  if (sequence_ == recent_.size() && sequence_ < most_recent) recent_.resize(2 * recent_.size());
  recent_[sequence_ & (recent_.size() - 1)] = {sequence_, call};
  return sequence_;
}

void GroupState::completed(const CallRecord& call) {
  if (!late_.empty()) late_.erase(call.sequence);
  if (call.sequence != 0 && static_cast<std::int32_t>(call.sequence - completed_.sequence) > 0) completed_ = call;
}

bool GroupState::begun(std::uint32_t sequence, Signature& call) const {
  const CallRecord& record = recent_[sequence & (recent_.size() - 1)];
  if (record.sequence != sequence || sequence == 0) return false;
  call = record.call;
  return true;
}

void GroupState::note_question(int world_rank, Clock::time_point now, Clock::time_point launched) {
  Answer& answer = answers_[world_rank];
  if (answer.asked < launched) answer.asked = now;  // a question about an earlier call may never be answered
}

void GroupState::note_answer(int world_rank, std::uint32_t begun, const CallRecord& completed) {
  if (group_.rank_of(world_rank) < 0) return;
  Answer& answer = answers_[world_rank];
  answer.at = Clock::now();
  answer.asked = {};
  answer.told_by = -1;
  answer.is_silent = false;
  answer.begun = begun;
  answer.completed = completed;
}

void GroupState::note_hearsay(const Hearsay& word) {
  for (auto& [rank, answer] : answers_)
    if (answer.told_by == word.teller && rank != word.about) answer.at = {};
  if (word.about < 0 || group_.rank_of(word.about) < 0) return;
  Answer& answer = answers_[word.about];
  if (answer.at >= word.at) return;
  answer.at = word.at;
  answer.told_by = word.teller;
  answer.is_silent = word.silent;
  if (word.silent) return;
  answer.begun = word.begun;
  answer.completed = word.completed;
}

const GroupState::Answer* GroupState::answer_of(int world_rank, Clock::time_point since) const {
  const auto found = answers_.find(world_rank);
  return found != answers_.end() && found->second.at >= since && !found->second.is_silent ? &found->second : nullptr;
}

GroupState::End GroupState::end_in(int rank, const Answer& answer, std::uint32_t sequence, Clock::time_point since,
                                   Clock::time_point now) const {
  constexpr Seconds to_answer{1.0}, fresh{6.0};
  const bool is_fresh = answer.at >= since && now - answer.at < fresh;
  if (is_fresh && !answer.is_silent && !answer.has_made(sequence)) return {rank, answer.at, false};
  if (is_fresh && answer.is_silent) return {rank, answer.at, true};
  if (answer.asked >= since && answer.asked > answer.at && now - answer.asked > to_answer) return {rank, now, true};
  return {};
}

GroupState::End GroupState::end_of_chain(std::uint32_t sequence, Clock::time_point since, Clock::time_point now) const {
  End silent;
  for (const auto& [rank, answer] : answers_) {
    const End end = end_in(rank, answer, sequence, since, now);
    if (end.rank >= 0 && !end.is_silent) return end;
    if (end.rank >= 0 && silent.rank < 0) silent = end;
  }
  return silent;
}

std::vector<int> GroupState::ends_of_chains(std::uint32_t sequence, Clock::time_point since,
                                            Clock::time_point now) const {
  std::vector<int> ranks;
  for (const auto& [rank, answer] : answers_)
    if (end_in(rank, answer, sequence, since, now).rank >= 0) ranks.push_back(rank);
  return ranks;
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
