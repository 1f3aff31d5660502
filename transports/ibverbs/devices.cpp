// Devices: queries libibverbs.
#include "transports/ibverbs/devices.hpp"

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transports/ibverbs/handles.hpp"
#include "transports/ibverbs/settings.hpp"
#include "transports/ibverbs/slots.hpp"
#include "tutti/memory.hpp"

namespace tutti::ibverbs {
namespace {

constexpr std::size_t most_gids = 1024;
constexpr std::uint32_t last_gid_index = 255;  // the queue pair attribute has 8 bits

double gigabits(const ibv_port_attr& port) {
  double lane = 2.5;
  switch (port.active_speed) {
    case 2: lane = 5; break;
    case 4:
    case 8: lane = 10; break;
    case 16: lane = 14; break;
    case 32: lane = 25; break;
    case 64: lane = 50; break;
    case 128: lane = 100; break;
    default: break;
  }
  const int lanes = port.active_width == 2 ? 4 : port.active_width == 4 ? 8 : port.active_width == 8 ? 12 : 1;
  return lane * lanes;
}

// The prefix length of the network of `address`, from this host's interfaces.
int prefix_of(const Address& address, const std::vector<Interface>& interfaces) {
  for (const Interface& one : interfaces)
    if (one.address.without_scope() == address.without_scope()) return one.prefix;
  return 0;
}

// Preference: InfiniBand; then RoCE v2 with IPv4, with IPv6, with a link-local address; then RoCE v1.
int worth(const Endpoint& one) {
  if (one.fabric == Fabric::infiniband) return 9;
  if (one.fabric == Fabric::roce1) return 0;
  if (one.address.link_local()) return 1;
  return one.address.family == AF_INET ? 3 : 2;
}

class Surveyor {
 public:
  explicit Surveyor(const Settings& settings)
      : device_(settings.of(ib_device)),
        port_(settings.of(ib_port)),
        gid_index_(settings.of(ib_gid_index)),
        interfaces_(local_interfaces()) {}

  Survey run() {
    const DeviceList devices;
    if (devices.count() == 0) {
      found_.problem = "this host has no RDMA device";
      return std::move(found_);
    }
    std::string names;
    for (int i = 0; i < devices.count(); ++i) {
      const std::string name = ibv_get_device_name(devices[i]);
      names += (names.empty() ? "" : ", ") + name;
      if (device_.empty() || device_ == name) look_at(devices[i], name);
    }
    if (found_.lines.empty())
      found_.problem = "there is no device '" + device_ + "' (TUTTI_IB_DEVICE) here, but " + names;
    std::ranges::stable_sort(found_.endpoints, [](const auto& a, const auto& b) { return worth(a) > worth(b); });
    if (!found_.endpoints.empty())
      found_.problem.clear();
    else if (found_.problem.empty())
      found_.problem = "no port can be used: " + problems_;
    return std::move(found_);
  }

 private:
  void look_at(ibv_device* device, const std::string& name) {
    const Context context(ibv_open_device(device));
    ibv_device_attr attributes{};
    if (!context || ibv_query_device(context.get(), &attributes) != 0)
      return note(name, std::string("cannot be opened (") + std::strerror(errno) + ")", false);
    if (device->transport_type != IBV_TRANSPORT_IB)
      return note(name, "is no InfiniBand or RoCE device, but iWARP or another kind", false);
    std::vector<ibv_gid_entry> gids(most_gids);
    const ssize_t count = ibv_query_gid_table(context.get(), gids.data(), gids.size(), 0);
    gids.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    bool any = false;
    for (int port = 1; port <= attributes.phys_port_cnt; ++port) {
      if (port_ != 0 && port_ != port) continue;
      any = true;
      look_at_port(context.get(), name, port, gids);
    }
    if (!any) note(name, "has no port " + std::to_string(port_) + " (TUTTI_IB_PORT)", false);
  }

  void look_at_port(ibv_context* context, const std::string& name, int number, const std::vector<ibv_gid_entry>& gids) {
    ibv_port_attr port{};
    const std::string who = name + " port " + std::to_string(number);
    if (ibv_query_port(context, static_cast<std::uint8_t>(number), &port) != 0)
      return note(who, "does not answer", false);
    if (port.state != IBV_PORT_ACTIVE) return note(who, std::string("is ") + ibv_port_state_str(port.state), false);
    Endpoint one;
    one.device = name;
    one.port = number;
    one.lid = port.lid;
    one.mtu = 128 << port.active_mtu;
    one.gigabits = gigabits(port);
    const std::size_t before = found_.endpoints.size();
    for (const ibv_gid_entry& gid : gids)
      if (static_cast<int>(gid.port_num) == number) add(one, gid, port.link_layer == IBV_LINK_LAYER_ETHERNET);
    if (found_.endpoints.size() == before)
      return note(who,
                  gid_index_ < 0 ? "has no address"
                                 : "has no address at index " + std::to_string(gid_index_) + " (TUTTI_IB_GID_INDEX)",
                  false);
    std::string addresses;
    for (std::size_t i = before; i < found_.endpoints.size(); ++i)
      addresses += (i == before ? "" : ", ") + found_.endpoints[i].address.text() + " (GID " +
                   std::to_string(found_.endpoints[i].gid_index) + ")";
    char speed[64];
    std::snprintf(speed, sizeof speed, "is active, MTU %d, %.4g Gbit/s, ", one.mtu, one.gigabits);
    note(who, speed + addresses, true);
  }

  void add(Endpoint one, const ibv_gid_entry& gid, bool ethernet) {
    if (gid.gid_index > last_gid_index) return;
    if (gid_index_ >= 0 && static_cast<std::uint32_t>(gid_index_) != gid.gid_index) return;
    if (!ethernet && gid.gid_index != 0 && gid_index_ < 0) return;  // index 0 is the port's own GID
    one.fabric = !ethernet ? Fabric::infiniband : gid.gid_type == IBV_GID_TYPE_ROCE_V2 ? Fabric::roce2 : Fabric::roce1;
    one.gid_index = static_cast<int>(gid.gid_index);
    one.address = address_of(gid.gid.raw);
    one.prefix = prefix_of(one.address, interfaces_);
    found_.endpoints.push_back(std::move(one));
  }

  void note(const std::string& who, const std::string& what, bool good) {
    found_.lines.push_back(who + " " + what);
    if (!good) problems_ += (problems_.empty() ? "" : "; ") + found_.lines.back();
  }

  const std::string device_;
  const std::int64_t port_, gid_index_;
  const std::vector<Interface> interfaces_;
  Survey found_;
  std::string problems_;
};

}  // namespace

Survey survey(const Settings& settings) { return Surveyor(settings).run(); }

std::string registration_problem(const std::string& name) {
  const DeviceList devices;
  ibv_device* const device = devices.find(name);
  if (device == nullptr) return name + " is gone";
  const Context context(ibv_open_device(device));
  const Domain domain(context ? ibv_alloc_pd(context.get()) : nullptr);
  if (!domain) return name + " cannot be opened (" + std::strerror(errno) + ")";
  const std::vector<std::byte> memory(pair_bytes);
  const Region region(ibv_reg_mr(domain.get(), const_cast<std::byte*>(memory.data()), memory.size(), 0));
  if (region) return {};
  return size_text(pair_bytes) + " of memory cannot be registered (" + std::strerror(errno) +
         "): raise the limit of locked memory, `ulimit -l unlimited`";
}

}  // namespace tutti::ibverbs
