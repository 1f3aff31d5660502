// Refusals: a rank refuses a call if it finds an argument wrong after all ranks have chosen tutti for the call.
//
// That rank reports the error as MPI would. If all ranks refuse the same call, for example because of a wrong root,
// nothing else happens, and the communicator remains usable. If another rank takes part in the call, that rank would
// wait for ever; it therefore fails the communicator with the reason. A rank that has refused a call makes its next
// call only after all other ranks have refused the same call.
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

/// The refused calls of a communicator, by number: those of this rank, and those that other ranks have reported. Any
/// thread.
class Refusals {
 public:
  explicit Refusals(int size) noexcept : others_(size - 1) {}

  /// Records that this rank takes part in its next call.
  void accept();
  /// Records that this rank refuses its next call. Returns the call's number, to be sent to the other ranks.
  std::uint64_t refuse();
  /// Records that another rank has refused the call `number`.
  void hear(std::uint64_t number, const std::string& why);

  /// The reason why another rank refused a call in which this rank takes or took part. Returned once, then nullopt.
  std::optional<std::string> take_conflict();
  /// True if all other ranks are known to have refused every call that this rank has refused.
  bool settled() const;

 private:
  const int others_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> any_{false};  ///< this or another rank has refused a call
  mutable std::mutex mutex_;
  std::map<std::uint64_t, int> mine_;                         // calls refused here: how many other ranks refused each
  std::map<std::uint64_t, std::vector<std::string>> theirs_;  // refused by others before this rank reached the call
  std::optional<std::string> conflict_;                       // guarded by mutex_, as mine_ and theirs_
};

/// Starts to receive the refusals of other ranks. Local.
void begin_refusals(Known& known);

/// Called before this rank makes a call. Blocks until all other ranks have refused every call that this rank refused,
/// or the communicator has failed.
void settle_refusals(Known& known);

/// Counts a call in which this rank takes part. Fails the communicator if another rank has refused it.
void accept_call(Known& known);

/// Tells the other ranks that this rank does not take part in its call of `function`. Errors are ignored: if the
/// communicator has failed, the other ranks have that cause already.
void refuse_call(const std::string& function, Known& known, const std::string& why) noexcept;

/// Fails the communicator if another rank has refused a call of this rank.
void fail_if_refused(Known& known);

}  // namespace tutti::preload
