// Transform: what is done to a sample on its way into a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/data/random.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// Random choices are made for each sample, or once for all samples of a step.
enum class Per : std::uint8_t { sample, batch };

/// What random choices depend on: never on the ranks, nor on how many threads there are.
struct Draw {
  std::uint64_t seed = 0;
  std::size_t epoch = 0;
  std::size_t step = 0;      ///< of the epoch
  std::uint32_t sample = 0;  ///< its number in the data set

  /// `purpose`: another number for each use.
  Random random(std::uint64_t purpose, Per per = Per::sample) const noexcept {
    return per == Per::sample ? Random::keyed(seed, purpose, epoch, sample)
                              : Random::keyed(seed, ~purpose, epoch, step);
  }
};

/// A function of sample and draw alone. Called from several threads at once; throws tutti::Error with one line.
using Transform = std::function<void(Sample&, const Draw&)>;

// The ones below change the array `field`. Images are of channels x height x width; outside of an image all is 0.

/// To f32: (x - mean) / deviation, where bytes are first divided by 255. One mean and deviation for all, or one for
/// each element of the first dimension.
Transform normalise(std::string field, std::vector<float> mean, std::vector<float> deviation);

/// Moves the image by up to `pixels` each way, the same number of choices in each direction.
Transform shift(std::string field, int pixels, Per per = Per::sample);

/// A window of height x width, anywhere in the image with `padding` zeros on all sides.
Transform random_crop(std::string field, int height, int width, int padding = 0, Per per = Per::sample);

/// The window in the middle: for held-out images where training ones are cropped.
Transform centre_crop(std::string field, int height, int width);

/// Left and right change places, half of the time.
Transform mirror(std::string field, Per per = Per::sample);

/// To another element type.
Transform convert(std::string field, DType dtype);

/// Throws Error{invalid} unless the integer is in [0, classes); leaves an i64.
Transform check_label(std::string field, std::size_t classes);

}  // namespace tutti::engine
