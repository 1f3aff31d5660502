// The record of failures in the segment.
#include "transports/shm/poison.hpp"

namespace tutti::shm {

bool PoisonSlot::post(const Cause& why) noexcept {
  std::uint32_t expected = empty;
  if (!state.compare_exchange_strong(expected, claimed, std::memory_order_acq_rel)) return false;
  cause = why;
  state.store(published, std::memory_order_release);
  return true;
}

bool PoisonSlot::read(Cause& why) const noexcept {
  if (state.load(std::memory_order_acquire) != published) return false;
  why = Cause::received(&cause);
  return true;
}

int PoisonTable::post(const Cause& why, int local, bool& first) noexcept {
  if (why.group != 0) local = -1;
  const int begin = local >= 0 ? local : ranks_;
  const int end = local >= 0 ? local + 1 : slots();
  first = false;
  for (int i = begin; i < end; ++i) {
    first = slots_[static_cast<std::size_t>(i)].post(why);
    if (first) changes_->fetch_add(1, std::memory_order_seq_cst);
    if (first || local >= 0) return i;
    Cause other;
    if (read(i, other) && other.group == why.group && other.culprit == why.culprit && other.code == why.code) return i;
  }
  return -1;
}

}  // namespace tutti::shm
