// IDX, the file format of MNIST: a magic number, big-endian dimensions, then bytes.
#pragma once

#include <filesystem>

#include "engine/data/array.hpp"
#include "engine/data/files.hpp"

namespace tutti::engine {

/// Reads a file of unsigned bytes with `rank` dimensions, gzip'd or not. Throws Error{invalid}, in one line, with the
/// file, what was expected and what was found.
Array read_idx(const std::filesystem::path& file, std::size_t rank, const ReadLimits& limits = {});

/// Writes an array of u8, uncompressed. Throws Error{resource}.
void write_idx(const std::filesystem::path& file, const Array& array);

}  // namespace tutti::engine
