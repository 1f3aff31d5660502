// Transform: changes a sample before it is added to a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/data/random.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// The scope of a transform's random choices: each sample draws its own, or all samples of a step share one.
enum class Per : std::uint8_t { sample, batch };

/// The inputs of random choices. They do not depend on the ranks or on the number of threads.
struct Draw {
  std::uint64_t seed = 0;
  std::size_t epoch = 0;
  std::size_t step = 0;  ///< of the epoch
  SampleId sample = 0;

  /// A generator for `purpose`, a different constant for each use.
  Random random(std::uint64_t purpose, Per per = Per::sample) const noexcept {
    return per == Per::sample ? Random::keyed(seed, purpose, epoch, sample)
                              : Random::keyed(seed, ~purpose, epoch, step);
  }
};

/// A function of the sample and the draw only. Called by several threads at once; throws tutti::Error, in one line.
using Transform = std::function<void(Sample&, const Draw&)>;

// The following transforms change the array `field`. Images are channels x height x width; positions outside an image
// are 0.

/// Converts to f32 and computes (x - mean) / deviation; bytes are divided by 255 first. One mean and deviation for all
/// elements, or one per element of the first dimension.
Transform normalise(std::string field, std::vector<float> mean, std::vector<float> deviation);

/// Moves the image by a uniform number of pixels from -`pixels` to `pixels` in each dimension.
Transform shift(std::string field, int pixels, Per per = Per::sample);

/// Cuts out a random window of height x width from the image with `padding` zeros on all sides.
Transform random_crop(std::string field, int height, int width, int padding = 0, Per per = Per::sample);

/// Cuts out the central window: for held-out images if training images are cropped.
Transform centre_crop(std::string field, int height, int width);

/// Flips the image horizontally with probability 1/2.
Transform mirror(std::string field, Per per = Per::sample);

/// Converts to another element type.
Transform convert(std::string field, DType dtype);

/// Throws Error{invalid} unless the integer is in [0, classes); converts it to i64.
Transform check_label(std::string field, std::size_t classes);

}  // namespace tutti::engine
