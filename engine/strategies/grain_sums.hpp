// Sums of gradients and of changes of buffers over grains, which are equal parts of a step's samples (batch.grains).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "engine/strategies/strategy.hpp"
#include "tutti/buffer.hpp"

namespace tutti::engine::exchange {

/// The gradients and changes of buffers of one grain, or their sum over several: an array for each element type.
struct GrainSum {
  struct Section {
    std::shared_ptr<std::byte> memory;
    at::Tensor values;  ///< of one dimension
    Buffer buffer;
  };
  std::vector<Section> sections;

  void add(const GrainSum& other);
};

/// Converts between a network's tensors and sums. A parameter without a gradient, or a buffer that a grain did not
/// change, counts as zero. A mark beside the values tells whether any grain had a gradient or a change.
class GrainTensors {
 public:
  explicit GrainTensors(const Replica& replica);

  /// Clears the gradients, and saves the buffers: every grain of the step begins with these values.
  void begin_step();
  void forget_gradients();
  /// Returns the gradients and changes of buffers of the grain just computed, and restores the buffers. Throws
  /// Error{unsupported} for a sparse gradient.
  GrainSum take();
  /// Sets the network's gradients to the sum over `grains` grains; they use the sum's memory. Changes each buffer by
  /// the mean of its changes.
  void give(GrainSum sum, std::size_t grains);
  /// Returns memory for a sum, not initialized.
  GrainSum make();
  /// Keeps the memory for the next make().
  void give_back(GrainSum sum) { spare_.push_back(std::move(sum)); }

 private:
  struct Item {
    at::Tensor tensor, before;  ///< `before`: a buffer's value at the beginning of the step
    std::size_t section = 0;
    std::int64_t offset = 0, mark = 0;
  };
  Item placed(const at::Tensor& tensor, const at::Tensor& before);
  at::Tensor part(const GrainSum& sum, const Item& item) const;
  at::Tensor marks(const GrainSum& sum, std::size_t section) const;

  std::shared_ptr<nn::TensorDevice> tensor_device_;
  std::vector<Item> parameters_, buffers_;
  std::vector<at::ScalarType> types_;
  std::vector<std::int64_t> elements_, marks_;  // counts by section; the marks follow the elements
  std::vector<GrainSum> spare_;
  GrainSum given_;
};

}  // namespace tutti::engine::exchange
