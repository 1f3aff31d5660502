// The client of the TCP store. Each call in progress has its own connection, so that a long wait() does not delay
// other calls; idle connections are reused.
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "collectives/bootstrap/socket.hpp"
#include "collectives/bootstrap/store_rules.hpp"
#include "collectives/bootstrap/store_url.hpp"
#include "collectives/bootstrap/store_wire.hpp"
#include "transports/core/byte_queue.hpp"
#include "tutti/store.hpp"

namespace tutti {
namespace {

using namespace store_wire;

constexpr double answer_seconds = 60;  // for requests that the server answers immediately
constexpr Seconds first_nap(0.002), longest_nap(0.1);
constexpr Seconds unreachable_patience(2);  // a network may just be coming up

enum class Tries { one, many };
enum class Io { done, late, closed };

Io send_all(int fd, std::string_view bytes, Deadline until) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (!sockets::poll_until(fd, POLLOUT, until)) return Io::late;
    } else if (errno != EINTR) {
      return Io::closed;
    }
  }
  return Io::done;
}

/// Reads until `bytes` has at least `least` bytes; at end of stream errno is 0.
Io receive(int fd, ByteQueue& bytes, std::size_t least, Deadline until) {
  char block[65536];
  while (bytes.size() < least) {
    const ssize_t n = recv(fd, block, sizeof block, 0);
    if (n > 0) {
      bytes.append({block, static_cast<std::size_t>(n)});
    } else if (n == 0) {
      errno = 0;
      return Io::closed;
    } else if (errno == EAGAIN) {
      if (!sockets::poll_until(fd, POLLIN, until)) return Io::late;
    } else if (errno != EINTR) {
      return Io::closed;
    }
  }
  return Io::done;
}

/// Parses one answer at the front of `bytes` and removes it.
Parsed take_answer(ByteQueue& bytes, Answer& answer) {
  std::string_view rest = bytes.view();
  const Parsed parsed = take(rest, answer);
  bytes.drop(bytes.size() - rest.size());
  return parsed;
}

std::string closed_text(int error) { return error == 0 ? "the connection was closed" : std::strerror(error); }

class TcpStore final : public Store {
 public:
  TcpStore(std::string host, int port, std::string secret, Deadline until, Tries tries)
      : host_(std::move(host)), port_(port), secret_(std::move(secret)), place_("the store at tcp://" + shown_place()) {
    idle_.push_back(connect(until, tries));
  }

  void set(std::string_view key, std::string_view value) override { call(Op::set, key, value, 0, soon()); }
  std::string wait(std::string_view key, Deadline until) override { return wait_unless(key, {}, until); }
  std::string wait_unless(std::string_view key, std::string_view unless, Deadline until) override {
    return wait_since(Clock::now(), key, unless, until);
  }
  std::vector<std::string> set_and_wait(std::string_view key, std::string_view value, std::span<const Awaited> keys,
                                        Deadline until) override {
    const Deadline started = Clock::now();
    std::string requests = request(Op::set, key, value);
    for (const Awaited& one : keys) requests += request(Op::wait, one.key, one.unless);
    std::vector<std::string> values;
    for (Answer& answer : talk(Op::wait, key, requests, 1 + keys.size(), until)) {
      if (answer.outcome == Outcome::instead) throw store_rules::departed(answer.value);
      values.push_back(std::move(answer.value));
    }
    if (!values.empty()) {
      values.erase(values.begin());
      return values;
    }
    set(key, value);  // the request may not have arrived
    // reports which key is missing
    for (const Awaited& one : keys) values.push_back(wait_since(started, one.key, one.unless, until));
    return values;
  }
  bool find(std::string_view key, std::string& value) override {
    Answer answer = call(Op::find, key, {}, 0, soon());
    if (answer.outcome == Outcome::absent) return false;
    value = std::move(answer.value);
    return true;
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return call(Op::add, key, {}, amount, soon()).number;
  }
  std::string set_once(std::string_view key, std::string_view value) override {
    return call(Op::set_once, key, value, 0, soon()).value;
  }
  void erase(std::string_view key) override { call(Op::erase, key, {}, 0, soon()); }
  void hurry(Seconds patience) override { patience_ = patience.count(); }
  void set_at_end(std::string_view key, std::string_view value) override {
    {
      const std::lock_guard lock(mutex_);
      at_end_ += request(Op::set_at_end, key, value);
      ++at_ends_;
    }
    Descriptor link = take_idle();
    if (!link) link = connect(soon());
    charge(std::move(link));
  }

 private:
  Deadline soon() const { return deadline_in(Seconds(patience_.load())); }
  std::string shown_place() const { return sockets::shown(host_, port_); }

  std::string wait_since(Deadline started, std::string_view key, std::string_view unless, Deadline until) {
    Answer answer = call(Op::wait, key, unless, 0, until);
    // The deadline may have passed before the server could answer, although the key exists.
    if (answer.outcome == Outcome::absent) answer = call(Op::find, key, {}, 0, soon());
    if (answer.outcome == Outcome::absent) throw store_rules::timed_out(key, place_, started);
    if (answer.outcome == Outcome::instead) throw store_rules::departed(answer.value);
    return std::move(answer.value);
  }

  static std::string request(Op op, std::string_view key, std::string_view value = {}, std::int64_t amount = 0) {
    store_rules::check(key, value);
    return encode(op, key, value, amount);
  }

  Answer call(Op op, std::string_view key, std::string_view value, std::int64_t amount, Deadline until) {
    std::vector<Answer> answers = talk(op, key, request(op, key, value, amount), 1, until);
    if (answers.empty()) return {Outcome::absent, {}, 0};
    if (answers.front().outcome == Outcome::refused) throw Error(Code::invalid, answers.front().value);
    return std::move(answers.front());
  }

  /// Sends `count` requests at once and returns their answers. If a wait is in vain, the last answer is `instead`. If
  /// the deadline of a wait passes before all answers have arrived, returns none.
  std::vector<Answer> talk(Op op, std::string_view key, const std::string& requests, std::size_t count,
                           Deadline until) {
    if (fork_generation() != generation_)
      throw Error(Code::invalid, place_ + " was opened before fork(); open another one in the child");
    Descriptor link = take_idle();
    if (!link) link = connect(op == Op::wait ? std::max(until, deadline_in(Seconds(1))) : until);
    ByteQueue bytes;
    std::vector<Answer> answers;
    Io io = send_all(link.fd(), requests, soon());
    Parsed parsed = Parsed::more;
    while (io == Io::done && answers.size() < count && parsed != Parsed::garbage) {
      Answer answer;
      parsed = take_answer(bytes, answer);
      if (parsed == Parsed::complete) {
        const bool in_vain = answer.outcome == Outcome::instead;
        answers.push_back(std::move(answer));
        if (!in_vain || answers.size() == count) continue;
        give_up(std::move(link));
        return answers;
      }
      if (parsed == Parsed::more) io = receive(link.fd(), bytes, bytes.size() + 1, until);
    }
    const bool garbled = io == Io::done && (answers.size() < count || !bytes.empty());
    if (io == Io::late || garbled) give_up(std::move(link));
    if (io == Io::late && op == Op::wait) return {};
    if (io == Io::late)
      throw Error(Code::timeout, place_ + " has not answered about key " + store_rules::shown(key) +
                                     ": is the process that serves it stopped?");
    if (io == Io::closed)
      throw Error(Code::peer_lost, place_ + " has gone while key " + store_rules::shown(key) + " was asked for (" +
                                       closed_text(errno) +
                                       "): the process that served it (the launcher or rank 0) has ended");
    if (garbled)
      throw Error(Code::protocol,
                  place_ + " sent what this version does not understand; install one version of tutti everywhere");
    put_back(std::move(link));
    return answers;
  }

  /// Sends the requests of set_at_end() over this connection, and keeps it open. Throws Error{peer_lost}.
  void charge(Descriptor link) {
    ByteQueue bytes;
    Answer answer;
    Io io = send_all(link.fd(), at_end_, soon());
    for (int answers = 0; io == Io::done && answers < at_ends_;)
      if (take_answer(bytes, answer) == Parsed::complete)
        ++answers;
      else
        io = receive(link.fd(), bytes, bytes.size() + 1, soon());
    if (io != Io::done)
      throw Error(Code::peer_lost, place_ + " has gone: the process that served it (the launcher or rank 0) has ended");
    const std::lock_guard lock(mutex_);
    charged_ = link.fd();
    idle_.push_back(std::move(link));
  }

  /// Closes a connection on which answers may arrive that are not wanted any more. If it carries the requests of
  /// set_at_end(), sends them over a new connection, because this object has not ended.
  void give_up(Descriptor link) {
    if (link.fd() != charged_) return;
    try {
      charge(connect(soon(), Tries::one));
    } catch (const Error&) {
      // the store has gone, which the next call reports
    }
  }

  Descriptor take_idle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    Descriptor link = std::move(idle_.back());
    idle_.pop_back();
    return link;
  }

  void put_back(Descriptor link) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(link));
  }

  /// Tries every address until one accepts; waits for a server that is not running yet.
  Descriptor connect(Deadline until, Tries tries = Tries::many) const {
    const Deadline started = Clock::now();
    std::string why;
    for (Seconds nap = first_nap;; nap = std::min(2 * nap, longest_nap)) {
      const std::vector<sockets::Address> addresses = sockets::resolve(host_, port_, false, why);
      std::size_t unreachable = 0;
      for (const sockets::Address& address : addresses) {
        Descriptor link = sockets::connect_to(address, until);
        if (!link) {
          unreachable += errno == ENETUNREACH ? 1 : 0;
          why = std::strerror(errno);
          continue;
        }
        if (introduce(link.fd(), until, why)) return link;
      }
      const Deadline now = Clock::now();
      if (!addresses.empty() && unreachable == addresses.size()) refuse_unreachable(addresses.front(), now - started);
      if (now >= until || tries == Tries::one) {
        char waited[32];
        std::snprintf(waited, sizeof waited, "%.3g s", Seconds(now - started).count());
        throw Error(Code::timeout, "tried for " + std::string(waited) + " to reach " + place_ + ": " + why +
                                       ". Is the launcher or rank 0 running there, and may this host connect to it?");
      }
      std::this_thread::sleep_for(std::min(until - now, std::chrono::duration_cast<Clock::duration>(nap)));
    }
  }

  /// Called if no network leads to the server. Throws Error{resource}: at once for a loopback address, otherwise after
  /// two seconds.
  void refuse_unreachable(const sockets::Address& address, Seconds waited) const {
    if (sockets::is_loopback(address))
      throw Error(Code::resource, place_ +
                                      " cannot be reached: the loopback interface of this host or container is down; "
                                      "raise it (ip link set lo up)");
    if (waited >= unreachable_patience)
      throw Error(Code::resource, "no network of this host leads to " + place_ +
                                      ": see `ip route`, or name an address that it reaches (TUTTI_STORE, --address)");
  }

  /// The handshake. Returns false with `why` if a retry may succeed; throws if it cannot.
  bool introduce(int fd, Deadline until, std::string& why) const {
    ByteQueue bytes;
    const auto failed = [&](Io io) {
      why = io == Io::late ? "somebody listens there but does not greet as a store does" : closed_text(errno);
      return false;
    };
    if (const Io io = receive(fd, bytes, greeting_bytes, until); io != Io::done) {
      if (bytes.view().substr(0, magic.size()) != magic.substr(0, bytes.size())) stranger();
      return failed(io);
    }
    std::uint32_t speaks = 0;
    Nonce theirs;
    if (!parse_greeting(bytes.view(), speaks, theirs)) stranger();
    if (speaks != version) other_version(std::to_string(speaks));
    const Nonce own = random_nonce();
    std::string reply = greeting(own);
    const Digest proof = client_proof(secret_, theirs, own);
    reply.append(reinterpret_cast<const char*>(proof.data()), proof.size());
    if (const Io io = send_all(fd, reply, until); io != Io::done) return failed(io);
    bytes.clear();
    if (const Io io = receive(fd, bytes, verdict_bytes, until); io != Io::done) return failed(io);
    const std::string_view said = bytes.view();
    if (said[0] == static_cast<char>(Verdict::wrong_version)) other_version("another");
    const Digest expected = server_proof(secret_, theirs, own);
    const bool proven = equal_constant_time(std::as_bytes(std::span(said).subspan(1, expected.size())), expected);
    if (said[0] != static_cast<char>(Verdict::welcome) || !proven)
      throw Error(Code::invalid,
                  place_ + " belongs to a job with another secret: TUTTI_SECRET must be the same on every rank");
    return true;
  }

  [[noreturn]] void stranger() const {
    throw Error(Code::protocol,
                "something other than tutti's store answers at tcp://" + shown_place() + "; give another port");
  }
  [[noreturn]] void other_version(const std::string& speaks) const {
    throw Error(Code::protocol, place_ + " speaks version " + speaks + " of the protocol and this is version " +
                                    std::to_string(version) + "; install one version of tutti everywhere");
  }

  const std::string host_;
  const int port_;
  const std::string secret_;
  const std::string place_;
  const std::uint32_t generation_ = fork_generation();
  std::atomic<double> patience_{answer_seconds};
  std::mutex mutex_;
  std::vector<Descriptor> idle_;
  std::string at_end_;             // the requests of set_at_end()
  int at_ends_ = 0;                // their number
  std::atomic<int> charged_ = -1;  // the connection that carries them
};

}  // namespace

std::shared_ptr<Store> connect_tcp_store(const std::string& host, int port, const std::string& secret, Deadline until) {
  return std::make_shared<TcpStore>(host, port, secret, until, Tries::many);
}

std::shared_ptr<Store> connect_tcp_store_once(const std::string& host, int port, const std::string& secret,
                                              Deadline until) {
  return std::make_shared<TcpStore>(host, port, secret, until, Tries::one);
}

}  // namespace tutti
