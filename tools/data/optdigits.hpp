// The UCI handwritten digits as a data set in MNIST's or mpi_learn's layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tutti::tools {

/// Downloads Debian's package python3-sklearn, which contains the images, without installing it. Returns the path of
/// its digits.csv.gz, below `folder`. Throws Error{resource}; its text says what to do.
std::filesystem::path fetch_digits(const std::filesystem::path& folder);

/// Images of 8x8 pixels with one byte per pixel. Each image has a digit as its label.
struct DigitImages {
  std::vector<std::uint8_t> pixels, labels;
  std::size_t size() const noexcept { return labels.size(); }
  std::span<const std::uint8_t> image(std::size_t i) const { return std::span(pixels).subspan(64 * i, 64); }
};

struct Digits {
  DigitImages train, test;
};

/// Reads digits.csv.gz (64 values from 0 to 16 and a class per line). Holds out a fifth of each class, always the same
/// images. Scales values to 0 to 255. Throws Error{invalid} that names the wrong line.
Digits read_digits(const std::filesystem::path& csv);

/// Writes four IDX files and a README with source, licence and split into the new folder `out`. Leaves nothing behind
/// on failure. Throws Error{invalid} if `out` exists, and Error{resource} if it cannot be written.
void write_digits(const Digits& digits, const std::filesystem::path& out);

/// Writes the digits in mpi_learn's layout: train.txt and test.txt list HDF5 files with features and labels, and
/// model.json is a network for them.
void write_digits_hdf5(const Digits& digits, const std::filesystem::path& out);

}  // namespace tutti::tools
