// Adapter: opening a device and its completion queue.
#include "transports/ibverbs/adapter.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "transports/ibverbs/bulk.hpp"
#include "transports/ibverbs/slots.hpp"
#include "tutti/log.hpp"
#include "tutti/memory.hpp"
#include "tutti/status.hpp"

namespace tutti::ibverbs {
namespace {

constexpr std::size_t completions_of_pair = in_slots + data_slots + spare_slots;
constexpr std::size_t completions_of_bulk = 2 * most_bulk;

Context open_device(const std::string& name) {
  const DeviceList devices;
  ibv_device* const device = devices.find(name);
  return Context(device != nullptr ? ibv_open_device(device) : nullptr);
}

[[noreturn]] void refuse(const std::string& device, const char* what) {
  throw Error(Code::resource, "the RDMA device " + device + " gives no " + what + " (" + std::strerror(errno) +
                                  "); choose another by TUTTI_IB_DEVICE, or another transport by TUTTI_TRANSPORT");
}

bool registers_on_demand(ibv_context* context) {
  ibv_device_attr_ex more{};
  constexpr std::uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
  return ibv_query_device_ex(context, nullptr, &more) == 0 && (more.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
         (more.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

void do_not_block(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Adapter::Adapter(const std::string& device, std::size_t pairs) : name_(device), context_(open_device(device)) {
  if (!context_) refuse(name_, "access");
  ibv_device_attr attributes{};
  if (ibv_query_device(context_.get(), &attributes) != 0) refuse(name_, "description");
  domain_.reset(ibv_alloc_pd(context_.get()));
  if (!domain_) refuse(name_, "protection domain");
  memories_ = std::make_shared<Memories>(domain_.get());
  on_demand_ = registers_on_demand(context_.get());
  channel_.reset(ibv_create_comp_channel(context_.get()));
  if (!channel_) refuse(name_, "completion channel");
  const std::size_t ports = std::min<std::size_t>(attributes.phys_port_cnt, Hello::most_paths);
  const std::size_t depth = std::max<std::size_t>(pairs, 1) * (completions_of_pair + ports * completions_of_bulk);
  if (depth > static_cast<std::size_t>(attributes.max_cqe)) {
    errno = EINVAL;
    refuse(name_, ("completion queue for " + std::to_string(pairs) + " peers").c_str());
  }
  queue_.reset(ibv_create_cq(context_.get(), static_cast<int>(depth), nullptr, channel_.get(), 0));
  if (!queue_) refuse(name_, "completion queue");
  std::error_code error;
  const auto place = std::filesystem::canonical(context_->device->ibdev_path, error);
  software_ = place.string().find("/virtual/") != std::string::npos;
  do_not_block(channel_->fd);
  do_not_block(context_->async_fd);
}

Region Adapter::open(ConstBytes memory, int access) noexcept {
  void* const first = const_cast<std::byte*>(memory.data());
  Region region(ibv_reg_mr(domain_.get(), first, memory.size(), access));
  if (!region && on_demand_)
    region.reset(ibv_reg_mr(domain_.get(), first, memory.size(), access | IBV_ACCESS_ON_DEMAND));
  if (!region && !std::exchange(closed_told_, true))
    log(LogLevel::warn, "large messages are copied, as " + size_text(memory.size()) +
                            " of memory cannot be registered with " + name_ + " (" + std::strerror(errno) +
                            "); raise the limit of locked memory, `ulimit -l unlimited`");
  return region;
}

bool Adapter::arm() noexcept {
  if (armed_ || left_out_) return true;
  ibv_cq* queue = nullptr;
  void* nothing = nullptr;
  unsigned told = 0;
  while (ibv_get_cq_event(channel_.get(), &queue, &nothing) == 0) ++told;
  if (told > 0) ibv_ack_cq_events(queue_.get(), told);
  const int error = ibv_req_notify_cq(queue_.get(), 0);
  if (error != 0) refused(error, "to wake who waits");
  return armed_ = error == 0;
}

void Adapter::refused(int error, const char* what) noexcept {
  if (!left_out_ && !std::exchange(refusal_told_, true)) refused_ = Refusal{error, what};
}

std::string Adapter::take_refusal() {
  const Refusal why = *std::exchange(refused_, std::nullopt);
  return "the RDMA device " + name_ + " refuses " + why.what + " (" + std::strerror(why.error) +
         "); see what the kernel says of it (`dmesg`), choose another by TUTTI_IB_DEVICE, or another transport by "
         "TUTTI_TRANSPORT";
}

bool Adapter::next_event(Event& event) noexcept {
  ibv_async_event news{};
  if (ibv_get_async_event(context_.get(), &news) != 0) return false;
  const bool of_port = news.event_type == IBV_EVENT_PORT_ACTIVE || news.event_type == IBV_EVENT_PORT_ERR;
  event = {news.event_type, of_port ? news.element.port_num : 0};
  ibv_ack_async_event(&news);
  return true;
}

}  // namespace tutti::ibverbs
