// Which device a rank trains on. Without LibTorch: what LibTorch and the accelerator report is passed in.
#pragma once

#include <string>
#include <string_view>

#include "tutti/communicator.hpp"

namespace tutti::engine {

/// The devices that a rank has.
struct Offer {
  bool torch_has_cuda = false;  ///< LibTorch was built with CUDA
  int torch_devices = 0;        ///< number of devices that LibTorch sees
  std::string why_not;          ///< why tutti sees no device; empty if it sees one
  int devices = 0;              ///< number of devices that tutti sees
};

/// Why a rank with this offer cannot train on a device, with what to do about it; empty if it can.
std::string why_no_device(const Offer& offer);

/// The choice that all ranks make.
struct DeviceChoice {
  bool on_device = false;
  std::string why_not;  ///< why `auto` chose the CPU: the reason of the first rank without a device
};

/// `wanted` is cpu, cuda, or auto (devices if every rank has one). Collective; blocks. Throws Error{invalid} on all
/// ranks if `wanted` is cuda and a rank has no device.
DeviceChoice choose_device(std::string_view wanted, const std::string& why_not, Communicator& world);

}  // namespace tutti::engine
