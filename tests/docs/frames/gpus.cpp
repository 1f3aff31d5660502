// A call on buffers whose contents a CUDA stream makes.
#include <tutti.hpp>

void on_a_stream(tutti::Communicator& world, tutti::Buffer gradient, void* cuda_stream) {
  // the block
}
