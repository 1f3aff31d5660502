// Network: a model to be trained. Without LibTorch's headers; see engine/models/model.hpp for its tensors.
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
class TensorDevice;
}

namespace tutti::engine {

struct NetworkTensors;  // engine/models/model.hpp
class NetworkParts;     // engine/models/parallel/parts.hpp

/// A module, and its forward function from a batch (first dimension: samples) to scores. A network without a LibTorch
/// module sets `tensors` and `set_training`.
struct Network {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::shared_ptr<nn::TensorDevice> tensor_device = nullptr;  ///< the device it is trained on; null: the CPU
  std::string weights = {};   ///< where the weights are from, for the report; empty: initial values
  std::string why_here = {};  ///< why the preferred device is not used; empty if it is
  std::shared_ptr<const NetworkTensors> tensors = {};  ///< null: the tensors of the module
  /// training or evaluation behaviour; empty: the module's train()
  std::function<void(bool training)> set_training = {};
  /// called after each update, to enforce constraints on parameters; may be empty
  std::function<void()> after_update = {};
  /// for a network over a mesh (engine/models/parallel/parallel.hpp); else null
  std::shared_ptr<const NetworkParts> parts = {};
};

}  // namespace tutti::engine
