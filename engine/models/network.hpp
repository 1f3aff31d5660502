// Network: something to train. Without LibTorch's headers; engine/models/model.hpp has what looks inside.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace tutti::nn {
class Site;
}

namespace tutti::engine {

struct NetworkTensors;  // engine/models/model.hpp
class NetworkParts;     // engine/models/parts.hpp

/// A module, and how a batch (the first dimension is the sample) becomes class scores. What a network does without a
/// module of LibTorch it states in `tensors` and `set_training`.
struct Network {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::shared_ptr<nn::Site> site = nullptr;              ///< where it is trained; null: on the CPU
  std::string why_here = {};                             ///< where that was not the first choice: why
  std::shared_ptr<const NetworkTensors> tensors = {};    ///< null: the module's
  std::function<void(bool training)> set_training = {};  ///< dropout and the like on or off; empty: the module's
  std::function<void()> after_update = {};               ///< brings parameters back to what they have to be, if need be
  std::shared_ptr<const NetworkParts> parts = {};        ///< of a network over a mesh (engine/models/parallel.hpp)
};

}  // namespace tutti::engine
