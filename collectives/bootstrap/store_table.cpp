#include "collectives/bootstrap/store_table.hpp"

#include <algorithm>

#include "collectives/bootstrap/store_rules.hpp"

namespace tutti {

using namespace store_wire;

std::optional<Answer> StoreTable::answer(Client from, const Request& request) {
  const auto found = values_.find(request.key);
  const bool known = found != values_.end();
  switch (request.op) {
    case Op::set: assign(request.key, request.value); break;
    case Op::find: return known ? Answer{Outcome::ok, found->second} : Answer{Outcome::absent, {}};
    case Op::wait: {
      if (known) return Answer{Outcome::ok, found->second};
      const auto instead = request.value.empty() ? values_.end() : values_.find(request.value);
      if (instead != values_.end()) return Answer{Outcome::instead, instead->second};
      park(from, {request.key, request.value});
      return std::nullopt;
    }
    case Op::add:
      try {
        const std::int64_t sum = store_rules::added(known ? std::string_view(found->second) : std::string_view(),
                                                    request.amount, request.key, place_);
        assign(request.key, std::to_string(sum));
        return Answer{Outcome::ok, {}, sum};
      } catch (const Error& error) {
        return Answer{Outcome::refused, error.what()};
      }
    case Op::set_once:
      if (known) return Answer{Outcome::ok, found->second};
      assign_last_word(request.key, request.value);
      return Answer{Outcome::ok, request.value};
    case Op::erase: values_.erase(request.key); break;
    case Op::set_at_end:
      asked_[from].push_back(request.key);
      at_end_[request.key] = {from, request.value};
      break;
  }
  return Answer{};
}

void StoreTable::hear_out(Client client) {
  std::string_view rest = behind_(client);
  for (Request request; take(rest, request) == Parsed::complete;) {
    if (request.op != Op::wait || request.value.empty() || values_.contains(request.key)) continue;
    if (const auto instead = values_.find(request.value); instead != values_.end())
      return end_wait(client, {Outcome::instead, instead->second});
  }
}

void StoreTable::leave(Client client) {
  if (waits(client)) unpark(client);
  const auto asked = asked_.extract(client);
  if (asked.empty()) return;
  for (const std::string& key : asked.mapped())
    if (const auto word = at_end_.find(key); word != at_end_.end() && word->second.first == client)
      assign_last_word(key, at_end_.extract(word).mapped().second);
}

void StoreTable::park(Client client, Wait wait) {
  if (wait.unless == wait.key) wait.unless.clear();
  parked_[wait.key].insert(client);
  if (!wait.unless.empty()) parked_[wait.unless].insert(client);
  waits_[client] = std::move(wait);
}

void StoreTable::unpark(Client client) {
  const Wait wait = waits_.extract(client).mapped();
  for (const std::string& key : {wait.key, wait.unless}) {
    const auto waiting = parked_.find(key);
    if (waiting != parked_.end() && waiting->second.erase(client) > 0 && waiting->second.empty())
      parked_.erase(waiting);
  }
}

void StoreTable::end_wait(Client client, const Answer& answer) {
  unpark(client);
  tell_(client, answer);
}

// Sets the key, and answers all clients whose wait it ends.
void StoreTable::assign(const std::string& key, const std::string& value) {
  values_.insert_or_assign(key, value);
  const auto waiting = parked_.find(key);
  if (waiting == parked_.end()) return;
  const std::set<Client> clients = std::move(waiting->second);
  parked_.erase(waiting);
  for (const Client client : clients)
    end_wait(client, {waits_.at(client).key == key ? Outcome::ok : Outcome::instead, value});
}

// assign() for a key that may say that another key will not be set any more. Also ends the wait of a client if one of
// its later requests waits in vain for that other key.
void StoreTable::assign_last_word(const std::string& key, const std::string& value) {
  assign(key, value);
  std::vector<Client> concerned;
  for (const auto& [client, wait] : waits_)
    if (behind_(client).find(key) != std::string_view::npos) concerned.push_back(client);
  for (const Client client : concerned) hear_out(client);
}

}  // namespace tutti
