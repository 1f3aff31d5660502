// The server of the TCP store: one thread and one epoll. A wait() for a missing key parks its connection until
// the key is set, so no client blocks the server.
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/bootstrap/socket.hpp"
#include "collectives/bootstrap/store_table.hpp"
#include "collectives/bootstrap/store_wire.hpp"
#include "transports/core/byte_queue.hpp"
#include "transports/core/half_open.hpp"
#include "transports/core/open_files.hpp"
#include "transports/core/throttle.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"
#include "tutti/store.hpp"
#include "tutti/threads.hpp"

namespace tutti {
namespace {

using namespace store_wire;

constexpr Seconds patience(10);      // seconds until a connection must have proved the secret
constexpr int accepted_at_once = 4;  // connections accepted before the other clients are served
constexpr std::uint64_t listener_id = 0, stop_id = 1, first_client_id = 2;
constexpr std::size_t block_bytes = 65536;
constexpr std::size_t most_unsent = std::size_t{4} << 20;         // unsent bytes at which a client's requests wait
constexpr eventfd_t listen_no_more = 1, leave_at_once = 1 << 20;  // commands of drain() and the destructor

struct Client {
  Descriptor socket;
  std::string name;
  Nonce nonce = {};
  bool trusted = false;
  ByteQueue in, out;
  bool urgent = false;  ///< `out` contains Outcome::instead, which must not be delayed
  std::uint32_t interest = 0;

  void add(const Answer& reply) {
    out.append(encode(reply));
    urgent |= reply.outcome == Outcome::instead;
  }
};

}  // namespace

struct TcpStoreServer::Impl {
  Impl(const std::string& address, int wanted_port, std::string token, std::size_t expected)
      : listener(sockets::listen_on(address, wanted_port)),
        port(sockets::port_of(listener.fd())),
        place("the store at tcp://" + sockets::shown(address.empty() ? "*" : address, port)),
        secret(std::move(token)),
        most_clients(expected),
        half_open(expected, patience),
        events(epoll_create1(EPOLL_CLOEXEC)),
        stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!events || !stop) throw Error(Code::resource, "cannot serve " + place + ": " + std::strerror(errno));
    watch(listener.fd(), listener_id, EPOLLIN, EPOLL_CTL_ADD);
    watch(stop.fd(), stop_id, EPOLLIN, EPOLL_CTL_ADD);
    // Signals are left to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread = start_thread("serves " + place, [this] { serve(); });
    } catch (const Error&) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void watch(int fd, std::uint64_t id, std::uint32_t interest, int how) {
    epoll_event event = {};
    event.events = interest;
    event.data.u64 = id;
    epoll_ctl(events.fd(), how, fd, &event);
  }

  void serve() {
    epoll_event ready[64];
    for (;;) {
      const int n = epoll_wait(events.fd(), ready, 64, sockets::milliseconds_until(half_open.next()));
      if (n < 0 && errno != EINTR) {
        log(LogLevel::error, place + " has ended: " + std::strerror(errno));
        return;
      }
      bool called = false;
      for (int i = 0; i < n; ++i) {
        const std::uint64_t id = ready[i].data.u64;
        if (id == stop_id) {
          eventfd_t count = 0;
          eventfd_read(stop.fd(), &count);
          if (count >= leave_at_once) return;
          listener.reset();  // new connections belong to a later job
          continue;
        }
        if (id == listener_id) {
          called = true;
        } else {
          handle(id, ready[i].events);
        }
      }
      if (called && listener) accept_some();
      expire();
    }
  }

  void expire() {
    for (const std::uint64_t id : half_open.take_late(Clock::now())) refuse(id, "it did not show the secret in time");
  }

  void accept_some() {
    for (int i = 0; i < accepted_at_once; ++i) {
      sockets::Address from;
      from.size = sizeof from.bytes;
      const int fd =
          accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from.bytes), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
        report("cannot accept a connection: " + std::string(std::strerror(errno)) + ". " +
               about_open_files(errno, most_clients - std::min(most_clients, clients.size())));
        if (const auto oldest = half_open.take_oldest()) {
          refuse(*oldest, "another one needs its descriptor");
          continue;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the listener stays readable, so avoid spinning
        return;
      }
      Client client;
      client.socket = Descriptor(fd);
      client.name = sockets::shown(from);
      client.nonce = random_nonce();
      client.out.append(greeting(client.nonce));
      const std::uint64_t id = next_id++;
      if (const auto oldest = half_open.add(id)) refuse(*oldest, "too many say nothing, and it is the oldest");
      const auto entry = clients.emplace(id, std::move(client)).first;
      watch(entry->second.socket.fd(), id, 0, EPOLL_CTL_ADD);
      flush(entry);
    }
  }

  using Entry = std::map<std::uint64_t, Client>::iterator;

  void handle(std::uint64_t id, std::uint32_t what) {
    const Entry entry = clients.find(id);
    if (entry == clients.end()) return;  // closed earlier in this batch of events
    Client& client = entry->second;
    if (what & (EPOLLERR | EPOLLHUP)) return ended(entry);
    if ((what & EPOLLOUT) && !(client.trusted ? answer_all(entry) : flush(entry))) return;
    if ((what & EPOLLIN) && !table.waits(id)) {
      if (!receive(entry)) return;
    } else if (what & EPOLLRDHUP) {
      ended(entry);
    }
  }

  /// Writes pending output and updates the epoll interest; false if the client has gone. While the client waits,
  /// earlier answers are kept and sent with the answer to the wait, unless they exceed a block or say that a wait is in
  /// vain.
  bool flush(Entry entry) {
    Client& client = entry->second;
    const bool waits = table.waits(entry->first);
    const auto due = [&] {
      return !client.out.empty() && (!waits || client.urgent || client.out.size() > block_bytes);
    };
    while (due()) {
      const ssize_t n = send(client.socket.fd(), client.out.view().data(), client.out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) {
        ended(entry);
        return false;
      }
      client.out.drop(static_cast<std::size_t>(n));
      client.urgent &= !client.out.empty();
    }
    // Nothing is read from a client that does not read its answers.
    std::uint32_t interest = EPOLLRDHUP;
    if (due()) interest |= EPOLLOUT;
    if (!waits && client.out.empty()) interest |= EPOLLIN;
    if (interest != client.interest) watch(client.socket.fd(), entry->first, interest, EPOLL_CTL_MOD);
    client.interest = interest;
    return true;
  }

  bool receive(Entry entry) {
    Client& client = entry->second;
    char block[block_bytes];
    const ssize_t n = recv(client.socket.fd(), block, sizeof block, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) {
      ended(entry);
      return false;
    }
    client.in.append({block, static_cast<std::size_t>(n)});
    if (!client.trusted && !greet(entry)) return false;
    if (!client.trusted) return true;
    if (!answer_all(entry)) return false;
    if (table.waits(entry->first)) table.hear_out(entry->first);
    return true;
  }

  /// Checks the handshake of a new connection; false if it is refused.
  bool greet(Entry entry) {
    Client& client = entry->second;
    const std::string_view said = client.in.view();
    const std::size_t seen = std::min(said.size(), magic.size());
    if (said.substr(0, seen) != magic.substr(0, seen))
      return refuse(entry->first, "it does not speak the store's protocol");
    if (said.size() < answer_bytes) return true;
    std::uint32_t speaks = 0;
    Nonce nonce;
    parse_greeting(said, speaks, nonce);
    Digest proof;
    std::memcpy(proof.data(), said.data() + greeting_bytes, proof.size());
    client.in.drop(answer_bytes);
    Verdict verdict = Verdict::welcome;
    if (speaks != version) {
      verdict = Verdict::wrong_version;
    } else if (!equal_constant_time(proof, client_proof(secret, client.nonce, nonce))) {
      verdict = Verdict::wrong_secret;
    }
    const char first = static_cast<char>(verdict);
    client.out.append({&first, 1});
    const Digest own = verdict == Verdict::welcome ? server_proof(secret, client.nonce, nonce) : Digest{};
    client.out.append({reinterpret_cast<const char*>(own.data()), own.size()});
    const std::uint64_t id = entry->first;
    if (!flush(entry)) return false;
    if (verdict == Verdict::wrong_version)
      return refuse(id,
                    "it speaks version " + std::to_string(speaks) + " and this is version " + std::to_string(version));
    if (verdict == Verdict::wrong_secret) return refuse(id, "its secret is wrong");
    client.trusted = true;
    half_open.remove(id);
    count_trusted(1);
    return true;
  }

  /// Answers the requests that have arrived. If the client does not read its answers, its further requests wait.
  bool answer_all(Entry entry) {
    Client& client = entry->second;
    for (bool more = true; more;) {
      std::string_view rest = client.in.view();
      while (more && !table.waits(entry->first) && client.out.size() < most_unsent) {
        Request request;
        const Parsed parsed = take(rest, request);
        more = parsed == Parsed::complete;
        if (parsed == Parsed::garbage) return refuse(entry->first, "it sent what is no request");
        if (!more) break;
        const std::optional<Answer> reply = table.answer(entry->first, request);
        if (reply) client.add(*reply);
      }
      client.in.drop(client.in.size() - rest.size());
      if (!flush(entry)) return false;
      more = more && client.out.empty() && !table.waits(entry->first);
    }
    return true;
  }

  /// Queues the answer for a client that has waited. It is sent later, when the socket is writable, because a failed
  /// send removes the client, which is not allowed while another client's request is handled.
  void tell(std::uint64_t id, const Answer& reply) {
    Client& client = clients.find(id)->second;
    client.add(reply);
    client.interest = EPOLLOUT | EPOLLRDHUP;
    watch(client.socket.fd(), id, client.interest, EPOLL_CTL_MOD);
  }

  void ended(Entry entry) {
    const Client& client = entry->second;
    // A client that has sent nothing may be a process of this job that was killed while it connected.
    if (!client.trusted && !client.in.view().empty())
      refuse(entry->first, "it left before it showed the secret");
    else
      close(entry);
  }

  /// Closes the connection and logs why; always returns false.
  bool refuse(std::uint64_t id, const std::string& why) {
    const Entry entry = clients.find(id);
    if (entry == clients.end()) return false;
    report("refused " + entry->second.name + ": " + why);
    close(entry);
    return false;
  }

  void count_trusted(int change) {
    const std::lock_guard lock(mutex);
    trusted += change;
    drained.notify_all();
  }

  void close(Entry entry) {
    if (entry->second.trusted) count_trusted(-1);
    const std::uint64_t id = entry->first;
    half_open.remove(id);
    clients.erase(entry);
    table.leave(id);
  }

  void report(const std::string& what) { throttle.log(LogLevel::warn, place + " " + what); }

  Descriptor listener;
  const int port;
  const std::string place;
  const std::string secret;
  const std::size_t most_clients;  // that are expected at once
  HalfOpen half_open;
  const Descriptor events;
  const Descriptor stop;
  const std::uint32_t generation = fork_generation();
  std::map<std::uint64_t, Client> clients;
  StoreTable table{place, [this](std::uint64_t id, const Answer& reply) { tell(id, reply); },
                   [this](std::uint64_t id) -> std::string_view { return clients.find(id)->second.in.view(); }};
  std::uint64_t next_id = first_client_id;
  Throttle throttle;
  std::mutex mutex;  // guards the members below, for drain(); all others belong to the thread
  std::condition_variable drained;
  int trusted = 0;  // clients that have proved the secret
  std::thread thread;
};

TcpStoreServer::TcpStoreServer(const std::string& address, int port, std::string secret, std::size_t clients)
    : impl_(std::make_unique<Impl>(address, port, std::move(secret), clients)) {}

TcpStoreServer::~TcpStoreServer() {
  if (impl_->generation != fork_generation()) {
    // A forked child does not have the thread and cannot join it, so it leaks the state.
    static_cast<void>(impl_.release());
    return;
  }
  eventfd_write(impl_->stop.fd(), leave_at_once);
  impl_->thread.join();
}

void TcpStoreServer::drain(Deadline until) {
  if (impl_->generation != fork_generation()) return;
  eventfd_write(impl_->stop.fd(), listen_no_more);
  std::unique_lock lock(impl_->mutex);
  impl_->drained.wait_until(lock, until, [&] { return impl_->trusted == 0; });
}

int TcpStoreServer::port() const noexcept { return impl_->port; }

}  // namespace tutti
