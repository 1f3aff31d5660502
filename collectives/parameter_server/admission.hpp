// Admission: how processes outside the job join running servers as workers.
//
// Every server serves a key-value store of its own. A newcomer gets its worker number from the first server's store.
// Then it connects to each server as a two-rank job that bootstraps through that server's store.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/served_store.hpp"
#include "collectives/parameter_server/request.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

/// The server's side: a thread that accepts newcomers and connects to them one at a time.
class Admission {
 public:
  struct Rules {
    int most = 0;          ///< maximum number of newcomers
    int first_worker = 0;  ///< worker number of the first newcomer; later ones count up from it
    Settings settings;     ///< of the communicators with newcomers
  };
  /// Called on the admission thread for each newcomer, with its worker number and the two-rank communicator, in which
  /// the server is rank 0. The communicator is nullopt if connecting failed.
  using Admit = std::function<void(int worker, std::optional<Communicator> pair)>;

  /// Throws Error{resource} if no port can be listened on.
  Admission(Rules rules, Admit admit);
  /// Joins the thread, which may first have to finish connecting to one newcomer (at most 15 seconds).
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// The store's endpoints and secret, which newcomers need, as one text without blanks.
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

/// The newcomer's side: its worker number, and its connection to each server.
struct Newcomer {
  int worker = -1;
  std::vector<Link> links;
};
/// Connects to the servers with these addresses, in this order; `timeout` is how long later requests wait for a reply,
/// in seconds. Blocks. Throws Error{peer_lost} if the servers have ended, Error{invalid} if they admit no more workers.
Newcomer enter_running(const std::vector<std::string>& addresses, const Settings& settings, double timeout);

}  // namespace tutti
