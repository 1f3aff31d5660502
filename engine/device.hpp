// Which device a rank trains on, and why not. Pure: what LibTorch and the accelerator say comes from outside.
#pragma once

#include <string>
#include <string_view>

#include "collectives/api/communicator.hpp"

namespace tutti::engine {

/// What one rank has to train on.
struct Offer {
  bool torch_has_cuda = false;  ///< LibTorch was built with it
  int torch_devices = 0;        ///< that it sees
  std::string why_not;          ///< why tutti sees no device; empty: it does
  int devices = 0;              ///< that tutti sees
};

/// Why a rank with this offer cannot train on a device, as a clause that says what to do; empty: it can.
std::string why_no_device(const Offer& offer);

/// What all ranks do.
struct DeviceChoice {
  bool on_device = false;
  std::string why_not;  ///< where `wanted` is auto and it is the CPU: of the first rank that has no device
};

/// `wanted` is cpu, cuda, or auto: devices if every rank can have one. Collective; blocks. Throws Error{invalid} on all
/// ranks alike where cuda is wanted, and one of them cannot.
DeviceChoice choose_device(std::string_view wanted, const std::string& why_not, Communicator& world);

}  // namespace tutti::engine
