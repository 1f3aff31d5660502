// StoreTable: the keys of the TCP store's server, and the clients that wait for them.
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

/// The map of keys, and the waits for keys that are not set. A client has a number and waits for one key at a time.
/// Threads: only the server's.
class StoreTable {
 public:
  using Client = std::uint64_t;
  /// Sends the answer to a client that has waited. Must not call functions of the table.
  using Tell = std::function<void(Client, const store_wire::Answer&)>;
  /// Returns the bytes of the requests that a client has sent after the request that waits.
  using Behind = std::function<std::string_view(Client)>;

  /// `place` is the store's name in error texts.
  StoreTable(std::string place, Tell tell, Behind behind)
      : place_(std::move(place)), tell_(std::move(tell)), behind_(std::move(behind)) {}

  /// Returns the answer, or none if the client has to wait for it.
  std::optional<store_wire::Answer> answer(Client from, const store_wire::Request& request);

  /// Returns true while the client waits for a key.
  bool waits(Client client) const { return waits_.contains(client); }

  /// Ends the client's wait if one of its later requests is a wait for a key that will not be set any more.
  void hear_out(Client client);

  /// Called when a client has ended: removes its wait, and sets the keys that it requested with Op::set_at_end.
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
  std::map<std::string, std::set<Client>> parked_;                // by key: the clients whose wait it ends
  std::map<std::string, std::pair<Client, std::string>> at_end_;  // by key: the last client to request it, the value
  std::map<Client, std::vector<std::string>> asked_;              // by client: the keys in at_end_ that it requested
};

}  // namespace tutti
