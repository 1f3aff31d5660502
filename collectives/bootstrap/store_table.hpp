// StoreTable: the keys of the TCP store's server, and who waits for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/bootstrap/store_wire.hpp"

namespace tutti {

/// The map of keys, and the waits for those that are not set. A client is known by a number and waits for one key at a
/// time. Threads: the server's alone.
class StoreTable {
 public:
  using Client = std::uint64_t;
  /// Gives a client that has waited its answer. Must not call the table.
  using Tell = std::function<void(Client, const store_wire::Answer&)>;
  /// The requests that a client has sent behind the one that waits.
  using Behind = std::function<std::string_view(Client)>;

  /// `place` is the store's name in messages.
  StoreTable(std::string place, Tell tell, Behind behind)
      : place_(std::move(place)), tell_(std::move(tell)), behind_(std::move(behind)) {}

  /// Returns the answer, or none if the client has to wait for it.
  std::optional<store_wire::Answer> answer(Client from, const store_wire::Request& request);

  /// Returns true if the client has not been given the answer to a wait yet.
  bool waits(Client client) const { return waits_.contains(client); }

  /// Ends the client's wait if a wait that it has requested after it is in vain.
  void hear_out(Client client);

  /// The client has ended: it waits for nothing any more, and the keys are set that it has asked to be set then.
  void leave(Client client);

 private:
  struct Wait {
    std::string key, unless;  // as in Store::wait_unless()
  };

  void park(Client client, Wait wait);
  void unpark(Client client);
  void end_wait(Client client, const store_wire::Answer& answer);
  void assign(const std::string& key, const std::string& value);
  void assign_last_word(const std::string& key, const std::string& value);

  const std::string place_;
  const Tell tell_;
  const Behind behind_;
  std::map<std::string, std::string> values_;
  std::map<Client, Wait> waits_;
  std::map<std::string, std::set<Client>> parked_;                // who waits for a key, or unless it is set
  std::map<std::string, std::pair<Client, std::string>> at_end_;  // by key: who has asked last, and the value
  std::map<Client, std::vector<std::string>> asked_;              // keys of at_end_
};

}  // namespace tutti
