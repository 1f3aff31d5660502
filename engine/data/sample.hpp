// Sample and Batch: arrays with names.
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

  /// Throws Error{invalid}, which lists the names that there are.
  const Array& operator[](std::string_view name) const;
  /// The array of this name, to be assigned; added as an empty one if there is none.
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

/// One sample: as sample["image"] (3x32x32) and sample["label"] (one number).
struct Sample : Fields {
  using Fields::Fields;
};

/// One rank's part of a step's samples. Every array has `count` as its first dimension.
struct Batch : Fields {
  using Fields::Fields;
  std::size_t step = 0;             ///< of the epoch, from 0
  std::size_t count = 0;            ///< samples here
  std::size_t global_count = 0;     ///< samples on all ranks: gradients are weighted by count / global_count
  std::size_t global_distinct = 0;  ///< of these, the ones that are no repetition: what metrics are divided by
  std::vector<std::uint32_t> ids;   ///< of the samples, in the data set
  std::vector<float> weights;       ///< in metrics: 1, or 0 for a repetition that fills the ranks up evenly
  std::vector<std::size_t> pieces;  ///< sizes of the micro-batches that it is cut into, one after the other
  std::size_t slot = 0;             ///< where it is on a device, if it was sent there (engine/feed.hpp)
};

}  // namespace tutti::engine
