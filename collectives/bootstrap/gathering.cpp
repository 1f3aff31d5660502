// Gathering: see gathering.hpp. Keys in the store, and in those that ranks serve, below "tree/":
//
//   link/R        the address at which rank R serves its children; empty: it does not serve
//   NAME/up/R     the texts of R's subtree, or why there are none
//   NAME/all      the root's answer: the texts of all ranks, or why there are none
//
// Values of the last two: '=' and the bytes of the texts; '?' and the ranks that have not come; or an error. Long
// values are cut into parts.
#include "collectives/bootstrap/gathering.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "collectives/bootstrap/served_store.hpp"
#include "collectives/bootstrap/store_rules.hpp"
#include "transports/addresses.hpp"
#include "transports/core/told_error.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::launchers {
namespace {

// A rank waits this much longer than the rank whose message it awaits, because that rank knows better which one is
// late.
constexpr Seconds per_link{1};
// How long a rank that has lost its parent waits for the launcher's report about the parent.
constexpr Seconds last_words{1};
constexpr Seconds one_address{1};  // how long a rank tries to connect to one address of its parent
constexpr const char* name_key = "rank";
constexpr std::size_t most_at_once = store_rules::longest_value - 32;

Deadline later(Deadline until, int links) { return until == never ? never : until + duration_of(links * per_link); }

/// Sets a value of any length: first the later parts, then the key itself with the number of parts and the first part.
void set_long(Store& store, const std::string& key, std::string_view value) {
  const std::size_t parts = std::max<std::size_t>(1, (value.size() + most_at_once - 1) / most_at_once);
  for (std::size_t i = 1; i < parts; ++i)
    store.set(key + "/" + std::to_string(i), value.substr(i * most_at_once, most_at_once));
  store.set(key, std::to_string(parts) + " " + std::string(value.substr(0, most_at_once)));
}

/// Returns the whole of a value. `first` is the text that `key` itself holds. Blocks until the other parts are set.
std::string whole_value(Store& store, const std::string& key, std::string first, Deadline until) {
  std::size_t parts = 0;
  const char* const end = first.data() + first.size();
  const char* const at = std::from_chars(first.data(), end, parts).ptr;
  if (parts == 0 || at == end) throw Error(Code::protocol, "the value of " + key + " in the store cannot be read");
  std::string value(at + 1, end);
  for (std::size_t i = 1; i < parts; ++i) value += store.wait(key + "/" + std::to_string(i), until);
  return value;
}

/// The message of a subtree: its texts, or the failure or the late ranks because of which there are none.
struct Told {
  Texts texts;
  std::optional<Error> failure;
  std::vector<int> late;

  bool whole() const { return !failure && late.empty(); }

  void add(const Told& child) {
    if (!failure) failure = child.failure;
    late.insert(late.end(), child.late.begin(), child.late.end());
    if (whole()) texts.append(child.texts);
  }

  std::string value() const {
    if (failure) return told_error(*failure);
    if (late.empty()) return "=" + texts.bytes();
    std::string list = "?";
    for (const int rank : late) list += " " + std::to_string(rank);
    return list;
  }

  static Told from(const std::string& value) {
    Told told;
    told.failure = error_told_in(value);
    if (value.starts_with('?')) {
      std::istringstream words(value.substr(1));
      for (int rank = 0; words >> rank;) told.late.push_back(rank);
    } else if (!told.failure) {  // parse() throws for the empty text that stands for a value of an unknown kind
      told.texts = Texts::parse(value.starts_with('=') ? std::string_view(value).substr(1) : std::string_view());
    }
    return told;
  }
};

/// Cuts `count` ranks from `first` on into at most `fan_out` nearly equal runs; calls `run(begin, end)` for each.
template <class Run>
void each_run(int first, int count, int fan_out, Run run) {
  const int runs = std::min(count, fan_out);
  for (int i = 0, begin = first; i < runs; ++i) {
    const int length = count / runs + (i < count % runs ? 1 : 0);
    run(begin, begin + length);
    begin += length;
  }
}

int height_of(int ranks, int fan_out) {
  int height = 0;
  for (; ranks > 1; ++height) ranks = (ranks - 1 + fan_out - 1) / fan_out;
  return height;
}

}  // namespace

Branch branch_of(int rank, int size, int fan_out) {
  Branch at{.end = size};
  for (int first = 0; first != rank; ++at.depth) {
    at.parent = first;
    each_run(first + 1, at.end - first - 1, fan_out, [&, parent = first](int begin, int end) {
      if (first != parent || rank < begin || rank >= end) return;
      first = begin;
      at.end = end;
    });
  }
  each_run(rank + 1, at.end - rank - 1, fan_out, [&](int begin, int) { at.children.push_back(begin); });
  at.height = height_of(at.end - rank, fan_out);
  return at;
}

namespace {

constexpr const char* tree_keys = "tree";

std::string all_key(std::string_view name) { return std::string(name) + "/all"; }

}  // namespace

void answer_all(Store& store, std::string_view name, const Texts& texts) {
  set_long(store, std::string(tree_keys) + "/" + all_key(name), "=" + texts.bytes());
}

struct Gathering::Impl {
  explicit Impl(Gatherers gatherers)
      : who(std::move(gatherers)),
        store(make_prefix_store(who.store, tree_keys)),
        at(branch_of(who.rank, who.size, who.fan_out)) {
    const bool links = who.store->is_one_server() && !who.secret.empty();
    if (links && who.rank != 0 && !at.children.empty()) serve();
    if (links && at.parent > 0) join_parent();
  }

  void serve() {
    try {
      CardedStore made = serve_with_card(who.one_host, who.secret);
      made.card.secret.clear();
      std::erase_if(made.card.endpoints, [this](const Endpoint& one) { return !may_use(one); });
      if (made.card.endpoints.empty()) throw Error(Code::resource, "no address of this host is in TUTTI_IFACE");
      card = to_text(made.card);
      served = std::move(made.served.store);
      served->set(name_key, std::to_string(who.rank));
    } catch (const Error& error) {
      log(LogLevel::info, std::string("the ranks below this one ask the job's store instead of it: ") + error.what(),
          who.rank);
    }
    store->set(link_key(who.rank), card);
  }

  void join_parent() {
    const std::string place = word_of(link_key(at.parent), at.parent, 1);
    if (place.empty()) return;  // the parent cannot serve
    for (const Endpoint& one : parse_store_card(place).endpoints) {
      if (try_parent(one)) return;
    }
    log(LogLevel::info, "asks the job's store, as rank " + std::to_string(at.parent) + " was not reached", who.rank);
  }

  /// Returns true if the parent serves at this address. The address may lead to another rank's server: for example, a
  /// bridge may have the same address on every host.
  bool try_parent(const Endpoint& where) {
    std::string ignored, name;
    try {
      parent = connect_any({where}, who.secret, std::min(later(who.until, 1), deadline_in(one_address)), ignored);
      if (parent->find(name_key, name) && name == std::to_string(at.parent)) return true;
    } catch (const Error& error) {
      log(LogLevel::debug, std::string("the rank above: ") + error.what(), who.rank);
    }
    parent.reset();
    return false;
  }

  bool may_use(const Endpoint& one) const {
    const auto address = Address::parse(one.host);
    if (!address || who.iface.empty()) return true;
    return std::ranges::any_of(allowed_interfaces(local_interfaces(), who.iface),
                               [&](const Interface& interface) { return interface.address == *address; });
  }

  static std::string link_key(int rank) { return "link/" + std::to_string(rank); }
  static std::string up_key(std::string_view name, int rank) {
    return std::string(name) + "/up/" + std::to_string(rank);
  }

  /// Waits for a value that `rank` sets in the job's store. Throws an Error that names `rank` if it has ended or is
  /// late.
  std::string word_of(const std::string& key, int rank, int links) {
    const Deadline until = later(who.until, links);
    try {
      return store->wait_unless(key, departure_key(rank), until);
    } catch (const Error& error) {
      if (error.code() != Code::timeout) throw;
      throw store_rules::not_joined({&rank, 1}, who.patience);
    }
  }

  Told hear_children(std::string_view name) {
    Told all;
    std::vector<Awaited> keys;
    for (const int child : at.children) keys.push_back({up_key(name, child), departure_key(child)});
    const Deadline until = later(who.until, at.height - 1);
    std::vector<std::string> values;
    bool waited = false;
    try {
      values = store->set_and_wait(link_key(who.rank), card, keys, until);
    } catch (const Error& error) {
      if (error.code() != Code::timeout || error.culprit() >= 0) {
        all.failure = error;
        return all;
      }
      waited = true;
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::string value;
      if (!waited)
        value = std::move(values[i]);
      else if (!store->find(keys[i].key, value)) {
        name_late(name, at.children[i], all.late);
        continue;
      }
      all.add(Told::from(whole_value(*store, keys[i].key, std::move(value), until)));
    }
    return all;
  }

  /// Appends `rank` to `late` or, if it has started, the ranks below it for which it waits. A rank has started if its
  /// link key is set.
  void name_late(std::string_view name, int rank, std::vector<int>& late) {
    const std::size_t before = late.size();
    std::string value;
    if (store->find(link_key(rank), value))
      for (const int child : branch_of(rank, who.size, who.fan_out).children)
        if (!store->find(up_key(name, child), value)) name_late(name, child, late);
    if (late.size() == before) late.push_back(rank);
  }

  void give(std::string_view name, const Text& mine) {
    Told own;
    own.texts.add(mine.own, mine.shared);
    if (!at.children.empty()) {
      try {
        own.add(hear_children(name));
      } catch (const Error& error) {
        own.failure = error;
      }
    }
    if (who.rank == 0)
      answer = root_answer(std::move(own));
    else
      set_long(*store, up_key(name, who.rank), own.value());
  }

  std::string root_answer(Told all) const {
    if (!all.failure && !all.late.empty()) {
      std::ranges::sort(all.late);
      all.failure = store_rules::not_joined(all.late, who.patience);
    }
    return all.value();
  }

  std::string word_of_parent(std::string_view name) {
    const std::string key = all_key(name);
    const int links = at.depth + height_of(who.size, who.fan_out);
    if (!parent) return word_of_root(key, links);
    try {
      return whole_value(*parent, key, parent->wait(key, later(who.until, links)), later(who.until, links));
    } catch (const Error& error) {
      if (error.code() == Code::timeout) throw store_rules::not_joined({&at.parent, 1}, who.patience);
      if (error.code() != Code::peer_lost) throw;
    }
    parent.reset();  // the next exchanges use the job's store too
    explain_loss_of_parent();
    return word_of_root(key, links);  // no end of the parent is reported: it may only have stopped serving
  }

  std::string word_of_root(const std::string& key, int links) {
    return whole_value(*store, key, word_of(key, 0, links), later(who.until, links));
  }

  /// Throws the error with the launcher's or the store's report about the parent, if there is one: it says more.
  void explain_loss_of_parent() {
    try {
      store->wait_unless("never", departure_key(at.parent), deadline_in(last_words));
    } catch (const Error& error) {
      if (error.culprit() >= 0) throw;
    }
  }

  /// Returns the answer from the parent, or a value with the error, so that the children get the error too.
  std::string answer_of_parent(std::string_view name) {
    try {
      return word_of_parent(name);
    } catch (const Error& error) {
      Told none;
      none.failure = error;
      return none.value();
    }
  }

  Texts take(std::string_view name) {
    if (who.rank != 0) answer = answer_of_parent(name);
    if (who.rank == 0 && who.size > 1) set_long(*store, all_key(name), answer);
    if (served) set_long(*served, all_key(name), answer);
    Told all = Told::from(answer);
    answer.clear();
    if (all.failure) throw *all.failure;
    if (static_cast<int>(all.texts.size()) != who.size)
      throw Error(Code::protocol, "the ranks do not agree on how many they are: " + std::to_string(all.texts.size()) +
                                      " and " + std::to_string(who.size));
    all.texts.settle();
    return std::move(all.texts);
  }

  const Gatherers who;
  const std::shared_ptr<Store> store;
  const Branch at;
  std::string card;  // the address at which this rank serves its children; empty: it does not serve
  std::shared_ptr<Store> served, parent;
  std::string answer;  // the root's answer; on the root set from give() to take()
};

Gathering::Gathering(Gatherers who) : impl_(std::make_unique<Impl>(std::move(who))) {}
Gathering::~Gathering() = default;
void Gathering::give(std::string_view name, const Text& mine) { impl_->give(name, mine); }
Texts Gathering::take(std::string_view name) { return impl_->take(name); }
Texts Gathering::exchange(std::string_view name, const Text& mine) {
  give(name, mine);
  return take(name);
}

}  // namespace tutti::launchers
