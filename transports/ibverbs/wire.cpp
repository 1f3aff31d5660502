// VerbsWire: connections and completions.
//
// While ranks communicate, only the completion queues are polled, which needs no system call. The side connections
// are polled occasionally, and whenever a connection is being made or this rank wakes from sleep.
#include "transports/ibverbs/wire.hpp"

#include <arpa/inet.h>
#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tutti/log.hpp"

namespace tutti::ibverbs {
namespace {

constexpr int most_unseen = 1024;
constexpr int patient_polls = 16;  // unsuccessful polls before the core is yielded to a software device
constexpr std::size_t completions_at_once = 32;
constexpr std::size_t header_bytes = 56;  // of a frame; header and data fill whole slots
constexpr StreamLimits stream_limits{16 << 10, 64 << 10, 0, 16 * slot_bytes - header_bytes};

}  // namespace

// ---- the side connection ----

void Side::control(int from, ConstBytes message) {
  Hello hello;
  std::memcpy(&hello, message.data(), std::min(message.size(), sizeof hello));
  if (message.size() != sizeof hello) hello.magic = 0;  // a hello of another version
  const std::lock_guard lock(mutex_);
  hellos_.emplace_back(from, hello);
}

std::vector<std::pair<int, Hello>> Side::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(hellos_, {});
}

// ---- making ----

std::vector<Route> routes_between(int rank, const Card& own, const Card& peer) {
  if (rank < peer.rank) return choose_routes(own.endpoints, peer.endpoints, Hello::most_paths);
  auto found = choose_routes(peer.endpoints, own.endpoints, Hello::most_paths);
  for (Route& one : found) std::swap(one.first, one.second);
  return found;
}

VerbsWire::VerbsWire(Setup setup, std::unique_ptr<Side> side, TransportListener& listener)
    : setup_(std::move(setup)),
      side_(std::move(side)),
      listener_(listener),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      links_(static_cast<std::size_t>(setup_.size)) {
  for (const Card& peer : setup_.peers) route(peer);
  watch_fd(side_->transport->fds().sleep);
  for (const auto& adapter : adapters_) {
    watch_fd(adapter->fd());
    watch_fd(adapter->events_fd());
  }
}

VerbsWire::~VerbsWire() = default;

void VerbsWire::watch_fd(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (!epoll_ || ::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw Error(Code::resource, "epoll failed: too many open files; raise the limit with `ulimit -n`");
}

void VerbsWire::route(const Card& peer) {
  Link& at = link(peer.rank);
  at.host = peer.host;
  for (const Route& one : routes_between(setup_.rank, setup_.own, peer)) {
    const Endpoint& own = setup_.own.endpoints[one.first];
    at.paths.push_back({&adapter_of(own), own, peer.endpoints[one.second], nullptr});
  }
}

Adapter& VerbsWire::adapter_of(const Endpoint& own) {
  const auto known = std::ranges::find_if(adapters_, [&](const auto& one) { return one->name() == own.device; });
  if (known != adapters_.end()) return **known;
  adapters_.push_back(std::make_unique<Adapter>(own.device, setup_.peers.size()));
  software_ |= adapters_.back()->software();
  return *adapters_.back();
}

StreamLimits VerbsWire::limits() const noexcept { return stream_limits; }

// ---- connecting ----

void VerbsWire::call(int peer) {
  const Link& at = link(peer);
  if (at.pair || at.gone || at.paths.empty()) return;
  if (make_pair(peer)) greet(peer);
}

/// Returns false if the device is out of resources. The peer is then reported as lost, because the callers do not
/// handle Errors.
bool VerbsWire::make_pair(int peer) {
  Link& at = link(peer);
  try {
    const Path& first = at.paths.front();
    at.pair = std::make_unique<Pair>(*first.adapter, peer, first.own, first.its);
  } catch (const Error& error) {
    lose(peer, error.code(), std::string("cannot be connected to: ") + error.what());
    return false;
  }
  for (std::uint8_t i = 0; Path & path : at.paths)
    path.bulk = std::make_unique<Bulk>(*path.adapter, peer, path.own, path.its, i++);
  ++connecting_;
  return true;
}

/// Sends this rank's hello with the given state.
void VerbsWire::greet(int peer, Hello::State state, std::size_t path) {
  const Link& at = link(peer);
  Hello mine;
  at.pair->introduce(mine);
  for (const Path& one : at.paths) one.bulk->introduce(mine);
  mine.path = static_cast<std::uint32_t>(path);
  if (state != Hello::State::here) mine.state = state;
  side_->transport->control(peer, {reinterpret_cast<const std::byte*>(&mine), sizeof mine});
}

void VerbsWire::greeted(int from, const Hello& hello) {
  Link& at = link(from);
  if (at.gone || at.paths.empty()) return;
  if (hello.magic != Hello::version_magic)
    return lose(from, Code::protocol, "speaks another version of the RDMA protocol; use the same tutti on all hosts");
  if (hello.state == Hello::State::leaving) {
    at.left = true;
    return;
  }
  if (!at.pair && !make_pair(from)) return;
  if (hello.state == Hello::State::no_bulk) {
    if (hello.path < at.paths.size()) stop_bulk(from, hello.path);
    return;
  }
  if (!at.pair->connected()) {
    if (const int error = at.pair->connect(hello, setup_.silence))
      return lose(from, Code::resource,
                  std::string("cannot be connected to over ") + at.pair->text() + " (" + std::strerror(error) +
                      "); check the addresses of the devices, or do without RDMA (TUTTI_TRANSPORT=shm,tcp)");
    for (const Path& one : at.paths) one.bulk->connect(hello, setup_.silence);
    greet(from);
  }
  if (hello.state == Hello::State::here || at.open) return;
  at.open = true;
  --connecting_;
  log(LogLevel::info, "reaches rank " + std::to_string(from) + " by " + at.pair->text(), setup_.rank);
}

bool VerbsWire::drive_side() {
  unseen_ = 0;
  const bool moved = side_->transport->progress();
  for (const auto& [from, hello] : side_->take()) greeted(from, hello);
  for (const auto& adapter : adapters_) events(*adapter);
  return moved;
}

void VerbsWire::events(Adapter& adapter) {
  for (Adapter::Event event; adapter.next_event(event);) {
    const std::string text = "RDMA device " + adapter.name() + ": " + ibv_event_type_str(event.type) +
                             (event.port > 0 ? ", port " + std::to_string(event.port) : "");
    const bool fatal = event.type == IBV_EVENT_DEVICE_FATAL || event.type == IBV_EVENT_CQ_ERR;
    log(fatal || event.type == IBV_EVENT_PORT_ERR ? LogLevel::warn : LogLevel::debug, text, setup_.rank);
    if (event.type == IBV_EVENT_PORT_ERR) lose_port(adapter, event.port);
    if (fatal)
      lose_device(adapter,
                  "has lost its RDMA device " + adapter.name() + " (" + ibv_event_type_str(event.type) +
                      "); see what the kernel says of it (`dmesg`), and start again without it (TUTTI_IB_DEVICE)");
  }
}

// ---- writing and reading ----

std::size_t VerbsWire::write(int to, std::span<const ConstBytes> pieces) {
  Link& at = link(to);
  if (!at.open) {
    call(to);
    return 0;
  }
  return at.pair->send(pieces);
}

bool VerbsWire::open(int to) const noexcept { return link(to).open && !link(to).pair->broken(); }

ConstBytes VerbsWire::peek(int from) {
  const Link& at = link(from);
  return at.pair ? at.pair->front() : ConstBytes();
}

void VerbsWire::consume(int from, std::size_t bytes) {
  if (Link& at = link(from); at.pair) at.pair->consume(bytes);
}

void VerbsWire::expect(int from) { call(from); }

// ---- polling ----

void VerbsWire::completed(const ibv_wc& done) {
  const Ticket ticket = Ticket::of(done.wr_id);
  Link& at = link(ticket.peer);
  if (!at.pair || at.gone) return;  // the pair was given up
  if (ended_bulk(at, ticket, done) || done.status == IBV_WC_WR_FLUSH_ERR) return;
  if (done.status == IBV_WC_RETRY_EXC_ERR)
    return lose(ticket.peer, Code::peer_lost,
                "has fallen silent (no answer to RDMA packets on " + at.pair->text() +
                    "). Are the host and this network up? TUTTI_TRANSPORT=shm,tcp does without RDMA");
  if (done.status != IBV_WC_SUCCESS)
    return lose(ticket.peer, Code::internal,
                std::string("and this rank disagree over RDMA (") + ibv_wc_status_str(done.status) + " on " +
                    at.pair->text() + "); make sure that all ranks run the same version of tutti");
  if (ticket.what == Ticket::What::sent) return at.pair->sent(ticket.slot);
  if (!at.pair->received(ticket.slot, done.byte_len, ntohl(done.imm_data)))
    return lose(ticket.peer, Code::protocol,
                "sent what it had no credit for; make sure that all ranks run the same tutti");
  if (at.pair->unread() && !std::exchange(at.listed, true)) unread_.push_back(ticket.peer);
}

/// Polls all devices. Returns true if a device refused a request, to be reported after the completions.
bool VerbsWire::gather() {
  std::array<ibv_wc, completions_at_once> some;
  bool refusing = false;
  for (const auto& adapter : adapters_) {
    for (const ibv_wc& one : adapter->poll(some)) done_.push_back(one);
    refusing |= adapter->refusing();
  }
  return refusing;
}

bool VerbsWire::complete() {
  const bool refusing = gather(), any = !done_.empty();
  while (!done_.empty()) {
    const ibv_wc one = done_.front();
    done_.pop_front();
    completed(one);
  }
  for (const auto& adapter : adapters_)
    if (refusing && adapter->refusing()) lose_device(*adapter, "cannot go on: " + adapter->take_refusal());
  return any;
}

// After a sleep: returns true if one of the descriptors is ready.
bool VerbsWire::rung() {
  epoll_event event;
  if (::epoll_wait(epoll_.fd(), &event, 1, 0) <= 0) return false;
  for (const auto& adapter : adapters_) adapter->rung();
  return true;
}

void VerbsWire::poll(std::vector<int>& ranks) {
  if (!unread_.empty())
    std::erase_if(unread_, [this](int peer) {
      Link& at = link(peer);
      return (!at.pair || !at.pair->unread()) && !(at.listed = false);
    });
  idle_ = complete() ? 0 : idle_ + 1;
  if (software_ && idle_ >= patient_polls) ::sched_yield(), idle_ = 0;
  if (connecting_ > 0 || ++unseen_ >= most_unseen || (std::exchange(woken_, false) && rung())) drive_side();
  ranks.insert(ranks.end(), unread_.begin(), unread_.end());
}

bool VerbsWire::arm(bool on) {
  Transport& side = *side_->transport;
  if (!on) return side.arm(false);
  woken_ = true;
  if (std::ranges::any_of(unread_, [this](int peer) { return link(peer).pair && link(peer).pair->unread(); }))
    return false;
  if (!ended_.empty()) return false;
  if (!side.arm(true)) {
    drive_side();
    return false;
  }
  bool armed = true;
  for (const auto& adapter : adapters_) armed &= adapter->arm() && !adapter->refusing();
  if (armed && !complete()) return true;
  side.arm(false);
  return false;
}

std::string VerbsWire::describe(int to) const {
  const Link& at = link(to);
  std::string text;
  for (const Path& one : at.paths) text += (text.empty() ? "" : "; ") + one.own.text() + " to " + one.its.text();
  return text;
}

// ---- ends ----

void VerbsWire::lose(int peer, Code code, const std::string& what) {
  Link& at = link(peer);
  if (at.gone) return;
  Cause cause;
  cause.code = code;
  cause.culprit = peer;
  cause.reporter = setup_.rank;
  std::strncpy(cause.host, at.host.c_str(), sizeof cause.host - 1);
  cause.say("rank " + std::to_string(peer) + (at.host.empty() ? "" : " on host " + at.host) + " " + what);
  at.gone = true;
  listener_.failed(cause);
}

void VerbsWire::drop(int peer) noexcept {
  Link& at = link(peer);
  if (at.pair && !at.open) --connecting_;
  at.gone = true;
  at.open = false;
  for (Path& one : at.paths) one.bulk.reset();
  at.pair.reset();
}

bool VerbsWire::post(const Cause& why) noexcept {
  side_->transport->spread(why);
  return true;
}

// Waits until the peers' devices have acknowledged all data, which the peers will then read. If two ranks close at the
// same time, the device of the first one may be gone before it acknowledges the other's last message. So a rank that
// has all its acknowledgements sends `leaving`, and the other one then waits no longer. A packet that the network has
// lost is sent again only after a part of `silence`, at whose end the pair of a peer that does not answer breaks.
void VerbsWire::close(Deadline until) noexcept {
  until = std::max(until, deadline_in(setup_.silence));
  const auto waits = [](const Link& at) {
    return at.open && !at.gone && !at.left && !at.pair->broken() && !at.pair->idle();
  };
  for (Link& at : links_)
    if (waits(at)) at.pair->finish();
  while (std::ranges::any_of(links_, waits) && Clock::now() < until) {
    complete();
    drive_side();
    ::sched_yield();
  }
  for (std::size_t peer = 0; peer < links_.size(); ++peer) {
    Link& at = links_[peer];
    if (at.open && !at.gone) greet(static_cast<int>(peer), Hello::State::leaving);
    at.open = false;
    at.gone = true;
    for (Path& one : at.paths) one.bulk.reset();
    at.pair.reset();
  }
}

}  // namespace tutti::ibverbs
