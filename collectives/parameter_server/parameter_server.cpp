// Setup and teardown of a parameter server, and workers' joining and leaving.
#include "tutti/parameter_server.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>
#include <thread>

#include "collectives/parameter_server/admission.hpp"
#include "collectives/parameter_server/parameters.hpp"
#include "collectives/parameter_server/pulse.hpp"
#include "collectives/parameter_server/server.hpp"
#include "collectives/parameter_server/sharding.hpp"
#include "transports/core/checked.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

std::vector<int> numbered(std::size_t size) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> listed(const std::vector<int>& ranks, int size, const char* what) {
  const std::vector<int> all = ranks.empty() ? numbered(static_cast<std::size_t>(size)) : ranks;
  for (const int rank : all)
    if (rank < 0 || rank >= size || std::ranges::count(all, rank) > 1)
      throw Error(Code::invalid, "parameter server: rank " + std::to_string(rank) + " among the " + what +
                                     " is listed twice or is not one of 0 to " + std::to_string(size - 1));
  return all;
}

const ParameterServer::Options& checked(const ParameterServer::Options& options) {
  checked_seconds(Seconds(options.timeout.value_or(0)), "parameter server: timeout");
  checked_seconds(Seconds(options.silence), "parameter server: silence");
  return options;
}

}  // namespace

std::vector<std::vector<std::byte>> ask_all(const std::shared_ptr<Outbox>& outbox, const Question& question) {
  Request::State state(outbox, question.what);
  {
    const std::lock_guard lock(outbox->order());
    protocol::Request request{.verb = question.verb, .instance = question.instance};
    outbox->number(request, outbox->links().size());
    for (std::size_t i = 0; i < outbox->links().size(); ++i) {
      const auto& payloads = question.payloads;
      const ConstBytes payload = payloads.empty() ? ConstBytes() : payloads[payloads.size() == 1 ? 0 : i];
      const Bytes into = question.into.empty() ? Bytes() : question.into[i];
      request.bytes = payload.size();
      request.values = into.size();
      state.parts.push_back(std::make_unique<RequestPart>(outbox->links()[i], request, payload, into));
    }
  }
  (void)state.wait_for(Seconds(for_ever));
  state.check();
  std::vector<std::vector<std::byte>> texts;
  for (const auto& part : state.parts) texts.emplace_back(part->text().begin(), part->text().end());
  return texts;
}

class ParameterServer::Impl {
 public:
  Impl(Communicator& group, const Options& options)
      : servers_(listed(options.servers, group.size(), "servers")),
        workers_(listed(options.workers, group.size(), "workers")),
        rank_(group.rank()) {
    std::vector<Server::Member> members;
    std::vector<Link> links;
    for (std::size_t server = 0; server < servers_.size(); ++server)  // in the same order on all ranks
      for (const int worker : workers_)
        if (servers_[server] == rank_ || worker == rank_)
          connect(group, options, static_cast<int>(server), worker, members, links);
    if (std::ranges::count(workers_, rank_) > 0) outbox_ = std::make_shared<Outbox>(std::move(links));
    if (const auto mine = std::ranges::find(servers_, rank_); mine != servers_.end()) {
      server_ = std::make_unique<Server>(Server::Seating{static_cast<int>(mine - servers_.begin()), servers_.size(),
                                                         std::move(members), options.joins > 0},
                                         options.rules, options.settings, options.silence);
      if (options.joins > 0) open_door(group, options.joins);
    }
    start_pulse(options);
    if (server_) thread_ = start_thread("serves workers", [this] { server_->run(); });  // last: no throw may follow
  }
  Impl(Newcomer newcomer, const Options& options)
      : servers_(numbered(newcomer.links.size())),
        workers_{newcomer.worker},
        rank_(newcomer.worker),
        outbox_(std::make_shared<Outbox>(std::move(newcomer.links))) {
    start_pulse(options);
  }
  ~Impl() {
    pulse_.reset();
    if (std::uncaught_exceptions() > exceptions_) {
      if (server_) server_->abort("parameter server: a server ends by an exception");
      abort_links();
    } else {
      say_goodbye();
    }
    serve();
  }

  void join() {
    if (joined_) return;
    settings_ = read_settings(ask_all(outbox(), {.verb = protocol::Verb::join, .what = "join"}).front());
    joined_ = true;
  }
  void leave() {
    (void)ask_all(outbox(), {.verb = protocol::Verb::leave, .what = "leave"});
    joined_ = false;
  }
  void serve() {
    if (thread_.joinable()) thread_.join();
    admission_.reset();
    if (server_) server_->turn_away();
  }
  const std::string& address() const noexcept { return address_; }
  const std::shared_ptr<Outbox>& outbox() const {
    if (!outbox_)
      throw Error(Code::invalid, "parameter server: rank " + std::to_string(rank_) + " is not one of its workers");
    return outbox_;
  }

  const std::vector<int> servers_, workers_;
  std::map<std::string, std::string> settings_;
  bool is_server() const noexcept { return server_ != nullptr; }
  bool is_worker() const noexcept { return outbox_ != nullptr; }

 private:
  void start_pulse(const Options& options) {
    if (outbox_ && options.silence > 0) pulse_ = std::make_unique<Pulse>(outbox_, Seconds(options.silence / 4));
  }

  void open_door(const Communicator& group, int joins) {
    admission_ = std::make_unique<Admission>(Admission::Rules{joins, group.size(), group.settings()},
                                             [this](int worker, std::optional<Communicator> pair) {
                                               server_->admit({worker, std::move(pair), 1});
                                             });
    address_ = admission_->address();
  }

  void connect(Communicator& group, const Options& options, int server, int worker,
               std::vector<Server::Member>& members, std::vector<Link>& links) {
    const int rank = servers_[static_cast<std::size_t>(server)];
    const std::array<int, 2> both{rank, worker};
    const std::span<const int> ranks(both.data(), rank == worker ? 1 : 2);
    std::optional<Communicator> pair;
    try {
      pair = group.group(ranks, "parameter server");
    } catch (const Error& error) {
      if (rank != rank_ || error.code() != Code::peer_lost) throw;  // a server goes on without a worker that has died
    }
    if (worker == rank_) links.push_back({*pair, 0, server, rank, options.timeout.value_or(group.settings().timeout)});
    if (rank == rank_) members.push_back({worker, std::move(pair), rank == worker ? 0 : 1});
  }

  void abort_links() noexcept {
    if (!outbox_) return;
    for (const Link& link : outbox_->links()) {
      Communicator pair = link.pair;
      pair.abort("parameter server: rank " + std::to_string(rank_) + " ends by an exception");
    }
  }

  void say_goodbye() noexcept {
    if (!outbox_) return;
    const std::lock_guard lock(outbox_->order());
    for (const Link& link : outbox_->links()) {
      try {
        Communicator pair = link.pair;
        const Block bye = request_head({.verb = protocol::Verb::bye});
        pair.send(ConstBuffer(bye.data(), bye.size(), DType::u8), link.peer, protocol::requests).wait();
      } catch (...) {  // the server is gone
      }
    }
  }

  const int rank_;
  const int exceptions_ = std::uncaught_exceptions();
  std::shared_ptr<Outbox> outbox_;  // on a worker
  bool joined_ = false;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Admission> admission_;  // on a server; destroyed before server_, which it calls
  std::string address_;
  std::thread thread_;
  std::unique_ptr<Pulse> pulse_;  // on a worker
};

ParameterServer::ParameterServer(Communicator& group, const Options& options)
    : impl_(std::make_shared<Impl>(group, checked(options))) {
  if (options.join && is_worker()) join();
}
ParameterServer::ParameterServer(const std::vector<std::string>& addresses, const Options& options,
                                 const Settings& settings)
    : impl_(std::make_shared<Impl>(
          enter_running(addresses, settings, checked(options).timeout.value_or(settings.timeout)), options)) {
  if (options.join) join();
}
ParameterServer::~ParameterServer() = default;

bool ParameterServer::is_server() const noexcept { return impl_->is_server(); }
bool ParameterServer::is_worker() const noexcept { return impl_->is_worker(); }
const std::vector<int>& ParameterServer::servers() const noexcept { return impl_->servers_; }
const std::vector<int>& ParameterServer::workers() const noexcept { return impl_->workers_; }
const std::string& ParameterServer::address() const noexcept { return impl_->address(); }
void ParameterServer::serve() { impl_->serve(); }

const std::map<std::string, std::string>& ParameterServer::join() {
  impl_->join();
  return impl_->settings_;
}
const std::map<std::string, std::string>& ParameterServer::settings() const { return impl_->settings_; }
void ParameterServer::leave() { impl_->leave(); }

std::vector<std::byte> ParameterServer::dump() { return dump_of(impl_->outbox()); }
void ParameterServer::load(ConstBytes dump) { load_into(impl_->outbox(), dump); }

Parameters ParameterServer::open(std::string_view name, std::size_t count, DType dtype, const OpenOptions& options) {
  const std::string what = "open '" + std::string(name) + "'";
  const std::size_t servers = impl_->servers_.size();
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::invalid, "parameter server: " + what + ": " + why);
  };
  if (is_integer(dtype))
    refuse("a parameter server holds f16, bf16, f32 or f64, not " + std::string(tutti::name(dtype)));
  if (!checked_product(count, size_of(dtype)))
    refuse(std::to_string(count) + " elements are more than an address space holds");
  if (!options.shares.empty() && options.shares.size() != servers)
    refuse("there are " + std::to_string(options.shares.size()) + " shares for " + std::to_string(servers) +
           " servers");
  const std::vector<Range> shards = options.shares.empty() ? even_shards(count, servers) : shards_of(options.shares);
  if (shards.back().end() != count)
    refuse("the shares have " + std::to_string(shards.back().end()) + " elements, and not " + std::to_string(count));
  auto state = std::make_shared<Parameters::State>();
  state->outbox = impl_->outbox();
  state->opening = {std::string(name), count, dtype, options.staleness, shards, options.counts};
  state->id = protocol::id_of(name);
  state->seen = std::make_shared<SeenVersions>(servers);
  const std::vector<std::byte> payload = state->opening.serialize();
  (void)ask_all(state->outbox,
                {.verb = protocol::Verb::open, .what = what, .instance = state->id, .payloads = {payload}});
  return Parameters(std::move(state));
}

}  // namespace tutti
