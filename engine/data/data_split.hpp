// DataSplit: the training and the held-out samples of a run.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/transform.hpp"

namespace tutti::engine {

struct ImageShape {
  std::size_t channels = 1, height = 0, width = 0;
  std::size_t pixels() const noexcept { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// The training and held-out samples, and the arrays of a sample that are inputs and target.
struct DataSplit {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> inputs{"image"};
  std::string target = "label";
  std::size_t classes = 0;  ///< number of classes if the target is a class; 0: the target is numbers
  /// Mean and standard deviation of the first input if it is bytes, on the scale 0 .. 1: one value for all elements, or
  /// one per element of the first dimension.
  std::vector<float> mean{0}, deviation{1};
  std::string description;  ///< one line for the user: the kind of data and the numbers of samples

  /// The shape of the only input. Throws Error{invalid}, in one line, unless it is channels x height x width.
  ImageShape image() const;

  /// The transforms that a network's inputs need: bytes become f32 with mean 0 and standard deviation 1; classes become
  /// i64 and are range-checked. Apply other transforms, such as shift(), before these.
  std::vector<Transform> preparation() const;
};

}  // namespace tutti::engine
