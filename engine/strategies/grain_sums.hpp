// What grains are added up of: gradients and changes of buffers.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "engine/strategies/strategy.hpp"
#include "transports/core/buffer.hpp"

namespace tutti::engine::exchange {

/// One piece of memory for each element type.
struct GrainSum {
  struct Section {
    std::shared_ptr<std::byte> memory;
    at::Tensor values;  ///< of one dimension
    Buffer buffer;
  };
  std::vector<Section> sections;

  void add(const GrainSum& other);
};

/// Makes sums of a network's tensors, and the network's tensors of a sum. A parameter without a gradient, and a buffer
/// that a grain did not change, count as zero; whether all grains were so is known from a mark beside the values.
class GrainTensors {
 public:
  explicit GrainTensors(const Replica& replica);

  /// Every grain begins with the buffers as they are now.
  void begin_step();
  void forget_gradients();
  /// The gradients and changes of the grain that was just computed. Puts the buffers back.
  GrainSum take();
  /// Makes the sum of `grains` grains gradients, which lie in its memory, and buffers: a buffer changes by the mean of
  /// the changes.
  void give(GrainSum sum, std::size_t grains);
  /// Memory for a sum, which is that of one that is not needed any more, where there is one.
  GrainSum make();
  void give_back(GrainSum sum) { spare_.push_back(std::move(sum)); }

 private:
  struct Item {
    at::Tensor tensor, before;  ///< `before`: of a buffer, as the step began
    std::size_t section = 0;
    std::int64_t offset = 0, mark = 0;
  };
  Item placed(const at::Tensor& tensor, const at::Tensor& before);
  at::Tensor part(const GrainSum& sum, const Item& item) const;
  at::Tensor marks(const GrainSum& sum, std::size_t section) const;

  std::shared_ptr<nn::Site> site_;
  std::vector<Item> parameters_, buffers_;
  std::vector<at::ScalarType> types_;
  std::vector<std::int64_t> elements_, marks_;  // of the sections: the marks come last
  std::vector<GrainSum> spare_;
  GrainSum given_;
};

}  // namespace tutti::engine::exchange
