#include "collectives/parameter_server/admission.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "transports/core/printable.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/log.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

constexpr Seconds look_again(0.2);  // how often the thread checks whether it should end
constexpr double connecting = 15;   // seconds for connecting to one newcomer; the next one waits meanwhile

std::string newcomer_key(int order) { return "newcomer/" + std::to_string(order); }

int number_in(const std::string& text) {
  int number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// The job of a server (rank 0) and a newcomer (rank 1), a process that joins as a worker.
Bootstrap job_of_two(int rank, std::shared_ptr<Store> store, const std::string& secret, const std::string& worker,
                     const Settings& settings) {
  Bootstrap two;
  two.rank = rank;
  two.size = 2;
  two.store = make_prefix_store(std::move(store), "worker/" + worker);
  two.settings = settings;
  two.settings.secret = secret;
  two.settings.job = "join-" + secret.substr(0, 8) + "-" + worker;
  two.settings.connect_timeout = std::min(settings.connect_timeout, connecting);
  two.launcher = "by hand";
  return two;
}

}  // namespace

Admission::Admission(Rules rules, Admit admit)
    : rules_(std::move(rules)),
      admit_(std::move(admit)),
      door_(launchers::serve_with_card(false, "")),
      address_(launchers::to_text(door_.card)) {
  door_.served.store->set("first worker", std::to_string(rules_.first_worker));
  door_.served.store->set("most", std::to_string(rules_.most));
  thread_ = start_thread("lets newcomers in", [this] { run(); });
}

Admission::~Admission() {
  ends_ = true;
  thread_.join();
}

void Admission::run() {
  for (int order = 0; order < rules_.most && !ends_; ++order) {
    const std::optional<std::string> worker = newcomer(order);
    if (!worker) continue;
    const int number = number_in(*worker);
    if (number < rules_.first_worker || number >= rules_.first_worker + rules_.most) {
      log(LogLevel::warn, "parameter server: a newcomer calls itself worker '" + printable(*worker, 20) +
                              "', which no newcomer is; it is not let in");
      continue;
    }
    std::optional<Communicator> pair;
    try {
      pair = connect(*worker);
    } catch (const Error& error) {
      log(LogLevel::warn, "parameter server: worker " + *worker + " wanted to join, but " + error.what());
    }
    admit_(number, std::move(pair));
  }
}

// Waits until the `order`-th newcomer has set its worker number in the store, and returns it. Returns nullopt if the
// newcomer has taken its place in the order but does not set the number within 15 s, or if the destructor runs.
std::optional<std::string> Admission::newcomer(int order) {
  std::optional<Deadline> until;  // set once a newcomer has taken this place
  std::string text;
  while (!ends_) {
    try {
      return door_.served.store->wait(newcomer_key(order), deadline_in(look_again));
    } catch (const Error&) {  // timed out: no newcomer yet
    }
    try {
      if (!until && door_.served.store->find("newcomers", text) && number_in(text) > order)
        until = deadline_in(Seconds(connecting));
    } catch (const Error&) {  // the store did not answer in time: retry
    }
    if (until && Clock::now() > *until) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Communicator> Admission::connect(const std::string& worker) const {
  return Communicator::connect(job_of_two(0, door_.served.store, door_.card.secret, worker, rules_.settings));
}

Newcomer enter_running(const std::vector<std::string>& addresses, const Settings& settings, double timeout) {
  if (addresses.empty())
    throw Error(Code::invalid, "parameter server: joining wants the address of each server, and there is none");
  Newcomer made;
  for (std::size_t server = 0; server < addresses.size(); ++server) {
    const launchers::StoreCard card = launchers::parse_store_card(addresses[server]);
    std::string place;
    std::shared_ptr<Store> store;
    try {
      store = launchers::connect_any(card.endpoints, card.secret, deadline_in(Seconds(3)), place);
    } catch (const Error&) {
      throw Error(Code::peer_lost, "nothing answers at " + launchers::shown(card.endpoints) +
                                       ": what was to be joined has ended, or is on a host that cannot be reached");
    }
    if (server == 0) {
      const auto order = static_cast<int>(store->add("places", 1)) - 1;
      const std::string most = store->wait("most", deadline_in(Seconds(connecting)));
      if (order >= number_in(most)) throw Error(Code::invalid, "all " + most + " workers that may join have done so");
      made.worker = number_in(store->wait("first worker", deadline_in(Seconds(connecting)))) + order;
    }
    const std::string worker = std::to_string(made.worker);
    store->set(newcomer_key(static_cast<int>(store->add("newcomers", 1)) - 1), worker);
    const Communicator pair = Communicator::connect(job_of_two(1, store, card.secret, worker, settings));
    made.links.push_back({pair, 0, static_cast<int>(server), static_cast<int>(server), timeout});
  }
  return made;
}

}  // namespace tutti
