// Calls that a rank refuses after all ranks have chosen tutti, because it finds an argument wrong.
//
// MPI reports the error at that rank. Where every rank refuses the same call, as one with a wrong root, no more
// happens, and the communicator can be used on. Where another rank takes part in it, that rank would wait for ever, so
// it fails the communicator with the reason. Who has refused a call makes the next one only when all others have
// refused it too.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tutti::preload {

struct Known;

/// The calls of a communicator by number, as one rank and what it hears from the others see them. Any thread.
class Refusals {
 public:
  explicit Refusals(int size) noexcept : others_(size - 1) {}

  /// This rank takes part in its next call.
  void accept();
  /// This rank refuses its next call; returns the number, which the others have to hear.
  std::uint64_t refuse();
  /// Another rank has refused the call `number`.
  void hear(std::uint64_t number, const std::string& why);

  /// Why a call in which this rank takes part, or took part, cannot be made by all. Returned once.
  std::optional<std::string> take_conflict();
  /// False while this rank has refused a call that not all others are known to have refused.
  bool settled() const;

 private:
  const int others_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> any_{false};  ///< a call has been refused here or elsewhere
  mutable std::mutex mutex_;
  std::map<std::uint64_t, int> mine_;                         // refused here: how many others have refused it
  std::map<std::uint64_t, std::vector<std::string>> theirs_;  // refused elsewhere, before this rank came to it
  std::optional<std::string> conflict_;                       // guarded by mutex_, like both
};

/// Hears what other ranks refuse. Local.
void begin_refusals(Known& known);

/// Called before this rank makes a call. Blocks while a call that this rank refused may have been taken elsewhere.
void settle_refusals(Known& known);

/// Counts a call in which this rank takes part. Fails the communicator if another rank has refused it.
void accept_call(Known& known);

/// Tells the other ranks that this one does not take part in its call of `function`. Where the communicator has failed,
/// they know better.
void refuse_call(const std::string& function, Known& known, const std::string& why) noexcept;

/// Fails the communicator if another rank has refused a call of this rank.
void fail_if_refused(Known& known);

}  // namespace tutti::preload
