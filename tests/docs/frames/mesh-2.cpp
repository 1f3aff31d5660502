// Groups of layers along an axis, with LibTorch.
#include "nn/parallel/process_group.hpp"

namespace nn = tutti::nn;

void count(const tutti::Mesh& mesh) {
  // the block
}
