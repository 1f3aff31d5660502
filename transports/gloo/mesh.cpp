#include "transports/gloo/mesh.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "transports/addresses.hpp"
#include "transports/core/host.hpp"

namespace tutti {
namespace {

using Milliseconds = std::chrono::milliseconds;

/// The job's store with the interface of Gloo's stores. Records the keys that this rank sets, for clear().
class Board final : public gloo::rendezvous::Store {
 public:
  Board(tutti::Store& store, Deadline until) : store_(store), until_(until) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(key, {data.data(), data.size()});
    own_.push_back(key);
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.wait(key, until_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) (void)store_.wait(key, until_);
  }
  void wait(const std::vector<std::string>& keys, const Milliseconds&) override { wait(keys); }

  /// Erases the keys that this rank has set. Called when all ranks have read all keys.
  void clear() {
    for (const std::string& key : own_) store_.erase(key);
  }

 private:
  tutti::Store& store_;
  const Deadline until_;
  std::vector<std::string> own_;
};

// The text that a rank publishes: its host's identity and its interfaces, "host\nlo 127.0.0.1/8\neth0 10.0.0.2/24\n".
std::string card_text(const Placed& place) {
  std::string text = place.host + "\n";
  for (const Interface& one : place.interfaces)
    text += one.name + " " + one.address.text() + "/" + std::to_string(one.prefix) + "\n";
  return text;
}

Placed parse_card(const std::string& text) {
  Placed place;
  std::istringstream lines(text);
  std::getline(lines, place.host);
  std::string name, rest;
  while (lines >> name >> rest) {
    // A link-local address contains the name of the other host's interface. It does not parse, and is left out, if this
    // host has no interface of that name.
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    int prefix = -1;
    std::from_chars(rest.data() + std::min(slash + 1, rest.size()), rest.data() + rest.size(), prefix);
    if (const auto address = Address::parse(rest.substr(0, slash)); address && prefix >= 0 && prefix <= address->bits())
      place.interfaces.push_back({name, *address, prefix});
  }
  return place;
}

Address own_address(const BackendMeeting& meeting, Board& board) {
  const Placed own{host_identity(""), allowed_interfaces(local_interfaces(), meeting.settings->iface)};
  const std::string text = card_text(own);
  board.set("card/" + std::to_string(meeting.group->rank), {text.begin(), text.end()});
  std::vector<Placed> ranks;
  for (int rank = 0; rank < meeting.group->size(); ++rank) {
    const std::vector<char> card = board.get("card/" + std::to_string(rank));
    ranks.push_back(parse_card({card.begin(), card.end()}));
  }
  return addresses_in_common(ranks)[static_cast<std::size_t>(meeting.group->rank)];
}

std::shared_ptr<gloo::transport::Device> device_at(const Address& address) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address.text();
  attributes.ai_family = address.family;
  return gloo::transport::tcp::CreateDevice(attributes);
}

/// Address and port, as text.
using Endpoint = std::string;

Endpoint endpoint_of(const std::vector<char>& bytes) {
  sockaddr_storage socket{};
  std::memcpy(&socket, bytes.data(), std::min(bytes.size(), sizeof socket));
  const int port = socket.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(socket).sin6_port
                                                : reinterpret_cast<const sockaddr_in&>(socket).sin_port;
  if (socket.ss_family != AF_INET && socket.ss_family != AF_INET6) return {};
  return endpoint_text(Address::from(reinterpret_cast<const sockaddr&>(socket)),
                       ntohs(static_cast<std::uint16_t>(port)));
}

Milliseconds left_until(Deadline until) {
  const auto left = std::chrono::duration_cast<Milliseconds>(until - Clock::now());
  return std::clamp<Milliseconds>(left, Milliseconds(5), std::chrono::hours(24));
}

}  // namespace

class Mesh::Connected final : public gloo::rendezvous::Context {
 public:
  Connected(const Group& group, gloo::rendezvous::Store& store, std::shared_ptr<gloo::transport::Device> device,
            Deadline until)
      : Context(group.rank, group.size()) {
    setTimeout(left_until(until) / 5);  // one connection may take five timeouts
    connectFullMesh(store, device);
  }
  void put_under(const std::shared_ptr<Guard>& guard) {
    transportContext_ = make_guarded(guard, std::move(transportContext_));
  }
  void reuse_slots() noexcept { slot_ = 0; }

  /// Sets close-on-exec on the connections, which Gloo does not do.
  void close_on_exec() {
    std::vector<Endpoint> own;
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) own.push_back(endpoint_of(getPair(peer)->address().bytes()));
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename());
      sockaddr_storage name{};
      socklen_t length = sizeof name;
      if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) continue;
      const char* const bytes = reinterpret_cast<const char*>(&name);
      if (std::ranges::find(own, endpoint_of({bytes, bytes + sizeof name})) != own.end())
        ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
  }
};

Mesh::Mesh(const BackendMeeting& meeting, const std::shared_ptr<Guard>& guard) : guard_(guard) {
  Board board(*meeting.store, meeting.until);
  const Address address = own_address(meeting, board);
  try {
    connected_ = std::make_shared<Connected>(*meeting.group, board, device_at(address), meeting.until);
    connected_->close_on_exec();
    connected_->put_under(guard);
    context_ = connected_;
    gloo::BarrierOptions everybody(context(0));
    gloo::barrier(everybody);
  } catch (const Error&) {  // thrown by the store
    throw;
  } catch (const std::exception& error) {
    const bool late = Clock::now() >= meeting.until;
    throw Error(late ? Code::timeout : Code::resource,
                "gloo could not connect the ranks from " + address.text() + " on " + host_name() + ": " +
                    plain_text(error.what()) + ". Set TUTTI_IFACE to interfaces by which the hosts reach one another.");
  }
  board.clear();
}

const std::shared_ptr<gloo::Context>& Mesh::context(std::uint64_t salt) {
  guard_->salt(salt);
  connected_->reuse_slots();
  return context_;
}

}  // namespace tutti
