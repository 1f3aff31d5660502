// IDX: the file format of MNIST. A magic number, big-endian dimensions, then bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace tutti::engine {

/// An array of unsigned bytes: dims[0] items of dims[1] x dims[2] x ... each.
struct IdxArray {
  std::vector<std::size_t> dims;
  std::vector<std::uint8_t> bytes;
};

/// Reads a file of unsigned bytes with `rank` dimensions, gzip'd or not. Throws Error{invalid}: one line
/// that names the file, what was expected and what was found.
IdxArray read_idx(const std::filesystem::path& file, std::size_t rank);

/// Writes it, not compressed. Throws Error{resource}.
void write_idx(const std::filesystem::path& file, const IdxArray& array);

}  // namespace tutti::engine
