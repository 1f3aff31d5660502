// Memory and streams of torch tensors.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <memory>

#include "tutti/communicator.hpp"

namespace tutti::torch_binding {

/// The calling thread's current stream on this device.
Stream current_stream(c10::Device device);

/// An allocator of host memory that the ranks on this host share.
std::shared_ptr<c10::Allocator> make_allocator(const Communicator& communicator);

}  // namespace tutti::torch_binding
