#include "bindings/mpi/refusals.hpp"

#include <cstring>
#include <span>
#include <utility>

#include "bindings/mpi/communicators.hpp"
#include "bindings/mpi/waiting.hpp"

namespace tutti::preload {
namespace {

/// A control message: the call's number, then the reason.
std::string message_of(std::uint64_t number, const std::string& why) {
  std::string message(sizeof number, '\0');
  std::memcpy(message.data(), &number, sizeof number);
  return message + why.substr(0, 500);
}

/// False if the communicator has failed, for example because a rank has ended.
bool is_alive(Known& known) {
  const char given = 0;
  char got = 0;
  try {
    known.tutti->sendrecv(ConstBuffer(&given, 1, DType::u8), known.rank, Buffer(&got, 1, DType::u8), known.rank).wait();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

// No lock is needed, because at least one of accept() and hear() sees what the other has changed: accept() first counts
// the call and then reads any_; hear() first sets any_ and then reads the count.
void Refusals::accept() {
  const std::uint64_t number = next_.fetch_add(1);
  if (!any_.load()) return;
  const std::lock_guard lock(mutex_);
  const auto refused = theirs_.extract(number);
  if (refused && !conflict_) conflict_ = refused.mapped().front();
}

std::uint64_t Refusals::refuse() {
  const std::lock_guard lock(mutex_);
  any_.store(true);
  const std::uint64_t number = next_.fetch_add(1);
  const auto heard = theirs_.extract(number);
  const int so_far = heard ? static_cast<int>(heard.mapped().size()) : 0;
  if (so_far < others_) mine_[number] = so_far;
  return number;
}

void Refusals::hear(std::uint64_t number, const std::string& why) {
  const std::lock_guard lock(mutex_);
  any_.store(true);
  if (const auto mine = mine_.find(number); mine != mine_.end()) {
    if (++mine->second == others_) mine_.erase(mine);
  } else if (number >= next_.load()) {
    theirs_[number].push_back(why);
  } else if (!conflict_) {
    conflict_ = why;
  }
}

std::optional<std::string> Refusals::take_conflict() {
  if (!any_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  return std::exchange(conflict_, {});
}

bool Refusals::settled() const {
  if (!any_.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(mutex_);
  return mine_.empty();
}

void begin_refusals(Known& known) {
  known.refusals = std::make_shared<Refusals>(known.size);
  known.tutti->on_control([refusals = known.refusals](int, ConstBytes message) {
    std::uint64_t number = 0;
    if (message.size() < sizeof number) return;
    std::memcpy(&number, message.data(), sizeof number);
    const auto* const text = reinterpret_cast<const char*>(message.data());
    refusals->hear(number, std::string(text + sizeof number, text + message.size()));
  });
}

void settle_refusals(Known& known) {
  while (!known.refusals->settled() && is_alive(known)) wait_a_little({});
}

void accept_call(Known& known) {
  known.refusals->accept();
  fail_if_refused(known);
}

void refuse_call(const std::string& function, Known& known, const std::string& why) noexcept {
  try {
    const std::string said = "rank " + std::to_string(known.rank) + " does not take part in its " + function +
                             ", since " + why + "; all ranks have to make the same call";
    const std::string message = message_of(known.refusals->refuse(), said);
    for (int other = 0; other < known.size; ++other)
      if (other != known.rank) known.tutti->control(other, std::as_bytes(std::span(message)));
  } catch (const std::exception&) {
  }
}

void fail_if_refused(Known& known) {
  if (const auto why = known.refusals->take_conflict()) known.tutti->abort(*why);
}

}  // namespace tutti::preload
