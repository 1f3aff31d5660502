#include "engine/loop/device.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace tutti::engine {

std::string why_no_device(const Offer& offer) {
  if (!offer.torch_has_cuda)
    return "this LibTorch was built without CUDA; build tutti with -DTUTTI_TORCH=FOLDER of one that has it";
  if (!offer.why_not.empty()) return offer.why_not;
  if (offer.torch_devices == 0) return "LibTorch sees no device; look at CUDA_VISIBLE_DEVICES, and at nvidia-smi";
  if (offer.torch_devices != offer.devices)
    return "LibTorch sees " + std::to_string(offer.torch_devices) + " devices, and tutti " +
           std::to_string(offer.devices) + "; set CUDA_VISIBLE_DEVICES before the program starts, and leave it";
  return {};
}

DeviceChoice choose_device(std::string_view wanted, const std::string& why_not, Communicator& world) {
  if (wanted == "cpu") return {};
  constexpr std::int32_t nobody = std::numeric_limits<std::int32_t>::max();
  const std::int32_t first = world.allreduce(why_not.empty() ? nobody : world.rank(), min).wait();
  if (first == nobody) return {true, {}};
  std::vector<std::uint8_t> text(why_not.begin(), why_not.end());
  text.resize(static_cast<std::size_t>(world.broadcast(static_cast<std::int64_t>(why_not.size()), first).wait()));
  if (!text.empty()) world.broadcast(text, first).wait();
  const std::string why = "rank " + std::to_string(first) + " has no device: " + std::string(text.begin(), text.end());
  if (wanted == "cuda") throw Error(Code::invalid, "device=cuda: " + why + "; or say device=cpu");
  return {false, why.substr(0, why.find(';'))};  // without the advice after ';', because training on the CPU is allowed
}

}  // namespace tutti::engine
