// Admission: how processes outside the job join running servers as workers.
//
// Every server serves a key-value store of its own. A newcomer is a process that joins. It gets its worker number from
// the first server's store. Then it and each server form a job of two ranks, which meet in that server's store.
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
    Settings settings;     ///< settings of the communicators with newcomers
  };
  /// Called on the admission thread for each newcomer, with its worker number and the two-rank communicator, in which
  /// the server is rank 0. The communicator is nullopt if connecting failed.
  using Admit = std::function<void(int worker, std::optional<Communicator> pair)>;

  /// Starts the store and the thread. Throws Error{resource}.
  Admission(Rules rules, Admit admit);
  /// Joins the thread. Blocks for at most 15 seconds if the thread is just connecting to a newcomer.
  ~Admission();
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  /// A text without blanks with the store's endpoints and secret. Newcomers pass it to enter_running().
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
/// Connects to the servers at `addresses` (see Admission::address()), in this order. `timeout`: seconds for which later
/// requests wait for a reply. Blocks. Throws Error{peer_lost} if a server cannot be reached, and Error{invalid} if the
/// servers admit no more workers or there is no address.
Newcomer enter_running(const std::vector<std::string>& addresses, const Settings& settings, double timeout);

}  // namespace tutti
