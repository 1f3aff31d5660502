// IDX: the file format of MNIST. A magic number, big-endian dimensions, then bytes.
#pragma once

#include <filesystem>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Reads a file of unsigned bytes with `rank` dimensions, gzip'd or not. Throws Error{invalid}: one line
/// that names the file, what was expected and what was found.
Array read_idx(const std::filesystem::path& file, std::size_t rank);

/// Writes an array of u8, not compressed. Throws Error{resource}.
void write_idx(const std::filesystem::path& file, const Array& array);

}  // namespace tutti::engine
