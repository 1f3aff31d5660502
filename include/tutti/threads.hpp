// Starts threads. One that the system refuses is an Error that names the limit.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace tutti {

/// Which limit of processes and threads is reached on this machine, and how to raise it; or all limits, if none of them
/// seems to be. `root` is the folder that holds proc and sys. Any thread.
std::string reached_thread_limit(const std::string& root = "/");

/// Throws Error{resource}: the thread that `purpose`, such as "writes checkpoints", cannot be started.
[[noreturn]] void refuse_thread(std::string_view purpose, const std::system_error& why);

/// As std::thread(body). Throws Error{resource} with the reached limit if the system refuses it.
template <class Body>
std::thread start_thread(std::string_view purpose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& why) {
    refuse_thread(purpose, why);
  }
}

}  // namespace tutti
