// Admission: how processes that are no ranks of the job become workers of running servers.
//
// Every server serves a key-value store of its own. A newcomer takes its number at the first server's store, and then
// connects to each server as a job of two ranks that meets in that server's store.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/api/communicator.hpp"
#include "collectives/bootstrap/served_store.hpp"
#include "collectives/parameter_server/request.hpp"

namespace tutti {

/// A server's side: a thread that waits for newcomers and connects to them, one after the other.
class Admission {
 public:
  struct Rules {
    int most = 0;          ///< newcomers that are admitted
    int first_worker = 0;  ///< the number of the first of them; the next ones follow
    Settings settings;     ///< of the communicators with them
  };
  /// Called by the thread for each newcomer, with its number and the communicator of the two, in which the server is
  /// rank 0; without one if it could not be connected to.
  using Admit = std::function<void(int worker, std::optional<Communicator> pair)>;

  /// Throws Error{resource} where no port can be listened to.
  Admission(Rules rules, Admit admit);
  /// Waits for the thread: at most for the connection that is being made, which has 15 seconds.
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// Where newcomers find the store, and its secret: a text without blanks.
  const std::string& address() const noexcept { return address_; }

 private:
  void run();
  std::optional<std::string> newcomer(int order);
  std::optional<Communicator> connect(const std::string& worker) const;

  const Rules rules_;
  const Admit admit_;
  launchers::CardedStore door_;
  const std::string address_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

/// A newcomer's side.
struct Newcomer {
  int worker = -1;
  std::vector<Link> links;
};
/// Connects to the servers with these addresses, in their order; each reply is waited for `timeout` seconds. Throws
/// Error: peer_lost where the servers have ended, invalid where they admit nobody any more.
Newcomer enter_running(const std::vector<std::string>& addresses, const Settings& settings, double timeout);

}  // namespace tutti
