#include "bindings/c/unique_ids.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::c {
namespace {

constexpr Seconds unused_for(300);
constexpr std::string_view opening = "tutti-1 ";

struct Served {
  std::shared_ptr<Store> store;
  Deadline until;
};

/// Stores for which no communicator has been made yet, by secret.
struct Waiting {
  std::mutex mutex;
  std::map<std::string, Served> stores;
};
Waiting& waiting() {
  static auto* const all = new Waiting;  // never destroyed: a store's server must not be stopped by a static destructor
  return *all;
}

/// The text of an id: the store's secret and as many of its addresses as fit.
std::string short_card(launchers::StoreCard card) {
  for (;;) {
    std::string text = std::string(opening) + launchers::to_text(card);
    if (text.size() < unique_id_bytes || card.endpoints.size() == 1) return text;
    card.endpoints.pop_back();
  }
}

}  // namespace

void make_unique_id(char* id) {
  launchers::CardedStore made = launchers::serve_with_card(false, "");
  const std::string text = short_card(made.card);
  std::vector<std::shared_ptr<Store>> given_up;  // destroyed without the lock
  {
    Waiting& all = waiting();
    const std::lock_guard lock(all.mutex);
    for (auto one = all.stores.begin(); one != all.stores.end();) {
      const auto next = std::next(one);
      if (Clock::now() > one->second.until) given_up.push_back(all.stores.extract(one).mapped().store);
      one = next;
    }
    all.stores[made.card.secret] = {made.served.store, deadline_in(unused_for)};
  }
  std::memset(id, 0, unique_id_bytes);
  std::memcpy(id, text.data(), std::min(text.size(), unique_id_bytes - 1));
}

launchers::StoreCard card_in(const char* id) {
  const std::string_view all(id, static_cast<std::size_t>(std::find(id, id + unique_id_bytes, '\0') - id));
  if (all.substr(0, opening.size()) != opening)
    throw Error(Code::invalid, "id is none that tutti_get_unique_id made; bring all of its 256 bytes to every rank");
  return launchers::parse_store_card(std::string(all.substr(opening.size())));
}

OpenedId open_unique_id(const char* id, Deadline until) {
  const launchers::StoreCard card = card_in(id);
  {
    Waiting& here = waiting();
    const std::lock_guard lock(here.mutex);
    if (auto mine = here.stores.extract(card.secret)) return {mine.mapped().store, card.secret};
  }
  std::string place;
  return {launchers::connect_any(card.endpoints, card.secret, until, place), card.secret};
}

}  // namespace tutti::c
