// Endpoints: text form, and the choice of routes.
#include "transports/ibverbs/endpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "tutti/status.hpp"

namespace tutti::ibverbs {
namespace {

constexpr std::string_view card_magic = "ibverbs 1";
constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int subnet_bits = 64;  // of an InfiniBand GID
constexpr std::size_t most_endpoints = 256;

// Preference of a route between two endpoints; 0: they cannot reach each other.
int closeness(const Endpoint& a, const Endpoint& b) {
  if (a.fabric != b.fabric || a.address.family != b.address.family) return 0;
  if (a.fabric == Fabric::infiniband) return a.address.within(b.address, subnet_bits) ? 4 : 0;
  if (a.address.link_local() || b.address.link_local()) {
    return a.address.link_local() && b.address.link_local() ? 1 : 0;
  }
  const int prefix = std::max(a.prefix, b.prefix);
  if (a.fabric == Fabric::roce1) return prefix > 0 && a.address.within(b.address, prefix) ? 1 : 0;
  return prefix > 0 && a.address.within(b.address, prefix) ? 3 : 2;
}

bool same_port(const Endpoint& a, const Endpoint& b) { return a.device == b.device && a.port == b.port; }

[[noreturn]] void refuse_card() {
  throw Error(Code::protocol,
              "a rank published RDMA addresses that this version cannot read. Use the same tutti on all hosts.");
}

}  // namespace

Address address_of(const std::uint8_t (&gid)[16]) noexcept {
  Address address;
  if (std::memcmp(gid, mapped, sizeof mapped) == 0) {
    address.family = AF_INET;
    std::memcpy(address.bytes.data(), gid + sizeof mapped, 4);
  } else {
    address.family = AF_INET6;
    std::memcpy(address.bytes.data(), gid, sizeof gid);
  }
  return address;
}

void gid_of(const Address& address, std::uint8_t (&gid)[16]) noexcept {
  if (address.family == AF_INET) {
    std::memcpy(gid, mapped, sizeof mapped);
    std::memcpy(gid + sizeof mapped, address.bytes.data(), 4);
  } else {
    std::memcpy(gid, address.bytes.data(), sizeof gid);
  }
}

std::string Endpoint::text() const {
  constexpr std::string_view names[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
  return device + " port " + std::to_string(port) + ", " + std::string(names[static_cast<int>(fabric)]) + " at " +
         (fabric == Fabric::infiniband ? "LID " + std::to_string(lid) : address.text());
}

std::string Card::text() const {
  std::ostringstream out;
  out << card_magic << '\n' << rank << ' ' << host << '\n';
  for (const Endpoint& one : endpoints)
    out << one.device << ' ' << one.port << ' ' << static_cast<int>(one.fabric) << ' ' << one.lid << ' '
        << one.gid_index << ' ' << one.address.without_scope().text() << ' ' << one.prefix << ' ' << one.mtu << ' '
        << one.gigabits << '\n';
  return out.str();
}

Card Card::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  Card card;
  std::string line;
  if (!std::getline(in, line) || line != card_magic) refuse_card();
  if (!(in >> card.rank >> card.host) || !std::getline(in, line)) refuse_card();
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    Endpoint one;
    int fabric = 0;
    std::string address;
    if (!(fields >> one.device >> one.port >> fabric >> one.lid >> one.gid_index >> address >> one.prefix >> one.mtu >>
          one.gigabits))
      refuse_card();
    const auto parsed = Address::parse(address);
    const auto within = [](int value, int least, int most) { return value >= least && value <= most; };
    if (!parsed || !within(fabric, 0, static_cast<int>(Fabric::roce2)) || !within(one.port, 1, 255) ||
        !within(one.lid, 0, 65535) || !within(one.prefix, 0, parsed->bits()) || card.endpoints.size() == most_endpoints)
      refuse_card();
    one.fabric = static_cast<Fabric>(fabric);
    one.address = *parsed;
    card.endpoints.push_back(std::move(one));
  }
  return card;
}

std::vector<Route> choose_routes(const std::vector<Endpoint>& first, const std::vector<Endpoint>& second,
                                 std::size_t most) {
  std::vector<Route> routes;
  const auto taken = [&](std::size_t i, std::size_t j) {
    return std::ranges::any_of(routes, [&](const Route& one) {
      return same_port(first[one.first], first[i]) || same_port(second[one.second], second[j]);
    });
  };
  int needed = 1;
  while (routes.size() < most) {
    int closest = needed - 1;
    Route best;
    for (std::size_t i = 0; i < first.size(); ++i) {
      for (std::size_t j = 0; j < second.size(); ++j) {
        const int close = closeness(first[i], second[j]);
        const bool nearer = i + j < best.first + best.second;  // compares sums, so that both sides choose the same
        if (close < closest || (close == closest && (close < needed || !nearer)) || taken(i, j)) continue;
        closest = close;
        best = {i, j};
      }
    }
    if (closest < needed) break;
    needed = closest;
    routes.push_back(best);
  }
  return routes;
}

std::vector<Endpoint> without_link_local(std::vector<Endpoint> endpoints) {
  std::erase_if(endpoints,
                [](const Endpoint& one) { return one.fabric != Fabric::infiniband && one.address.link_local(); });
  return endpoints;
}

int ack_exponent(Seconds silence) noexcept {
  const double each = silence.count() / (ack_retries + 1) / 4.096e-6;
  return std::clamp(static_cast<int>(std::log2(std::max(each, 1.0))), 8, 21);
}

}  // namespace tutti::ibverbs
