// A step of an optimizer of the engine, with LibTorch.
#include <cmath>

#include "engine/optimizers/optimizer.hpp"
#include "engine/optimizers/schedules.hpp"
#include "nn/module.hpp"

using namespace tutti;
using namespace tutti::engine;
using tutti::engine::Place;

void step(const std::shared_ptr<torch::nn::Module>& module, const Schedule& schedule, const Place& place,
          const std::vector<nn::NamedTensor>& parameters) {
  // the block
}
