// Starts threads. If the system refuses a thread, throws an Error that names the limit that was reached.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace tutti {

/// A text for errors: which limit of processes and threads is reached on this machine, and how to raise it. Lists all
/// limits if none seems to be reached. `root` is the folder that holds proc and sys. Any thread.
std::string reached_thread_limit(const std::string& root = "/");

/// Throws Error{resource}, because a thread cannot be started. `purpose` says what it does: "writes checkpoints".
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
