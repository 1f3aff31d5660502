// Sample and Batch: named arrays.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Arrays by name, in the order in which they were added.
class Fields {
 public:
  using Field = std::pair<std::string, Array>;
  Fields() = default;
  Fields(std::initializer_list<Field> fields) : fields_(fields) {}

  /// The array with this name. Throws Error{invalid} with a list of the names if there is none.
  const Array& operator[](std::string_view name) const;
  /// The array with this name, for assignment; adds an empty one if there is none.
  Array& operator[](std::string_view name);
  const Array* find(std::string_view name) const noexcept;  ///< null: there is none

  std::size_t size() const noexcept { return fields_.size(); }
  auto begin() noexcept { return fields_.begin(); }
  auto end() noexcept { return fields_.end(); }
  auto begin() const noexcept { return fields_.begin(); }
  auto end() const noexcept { return fields_.end(); }

 private:
  std::vector<Field> fields_;
};

/// The number of a sample in its data set, from 0.
using SampleId = std::uint64_t;

/// One sample, for example sample["image"] (3x32x32) and sample["label"] (a scalar).
struct Sample : Fields {
  using Fields::Fields;
};

/// One rank's part of the samples of a step. `count` is the first dimension of every array.
struct Batch : Fields {
  using Fields::Fields;
  std::size_t step = 0;             ///< number of the step in the epoch, from 0
  std::size_t count = 0;            ///< number of samples here
  std::size_t global_count = 0;     ///< samples on all ranks; gradients are weighted by count / global_count
  std::size_t global_distinct = 0;  ///< samples on all ranks without repetitions; the divisor of metrics
  std::vector<SampleId> ids;        ///< of the samples, in the data set
  std::vector<float> weights;       ///< for metrics: 1, or 0 for repetitions that pad the batch
  std::vector<std::size_t> pieces;  ///< sizes of the consecutive micro-batches
  std::size_t slot = 0;             ///< the batch's slot on a device, if it was sent there (engine/loop/feed.hpp)
};

}  // namespace tutti::engine
