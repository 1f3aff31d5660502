// Memory and streams of torch's tensors.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <memory>

#include "collectives/api/communicator.hpp"

namespace tutti::torch_binding {

/// The stream that the calling thread puts work of this device on.
Stream current_stream(c10::Device device);

/// Of host memory that the other ranks of the host read and write in place.
std::shared_ptr<c10::Allocator> make_allocator(const Communicator& communicator);

}  // namespace tutti::torch_binding
