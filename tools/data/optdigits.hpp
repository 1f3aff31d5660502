// The UCI handwritten digits as a folder in MNIST's layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tutti::tools {

/// Downloads Debian's package python3-sklearn, which carries the images, without installing it, and returns
/// the digits.csv.gz in it, below `folder`. Throws Error{resource} with one line on what to do.
std::filesystem::path fetch_digits(const std::filesystem::path& folder);

/// Images of 8x8, a byte a pixel, and a digit each.
struct DigitImages {
  std::vector<std::uint8_t> pixels, labels;
  std::size_t size() const noexcept { return labels.size(); }
  std::span<const std::uint8_t> image(std::size_t i) const { return std::span(pixels).subspan(64 * i, 64); }
};

struct Digits {
  DigitImages train, test;
};

/// Reads digits.csv.gz (64 values of 0..16 and a class a line) and holds a fifth out: of each class, and the same
/// images always. Values become 0..255. Throws Error{invalid} naming the line that is wrong.
Digits read_digits(const std::filesystem::path& csv);

/// Writes the four IDX files and a README with source, licence and split into the new folder `out`: all or
/// nothing. Throws Error{invalid} if `out` is there already, Error{resource} if it cannot be written.
void write_digits(const Digits& digits, const std::filesystem::path& out);

/// The same in mpi_learn's form: train.txt and test.txt list HDF5 files with features and labels, and model.json is a
/// network for them.
void write_digits_hdf5(const Digits& digits, const std::filesystem::path& out);

}  // namespace tutti::tools
