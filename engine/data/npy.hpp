// NPY: NumPy's file format for one array.
#pragma once

#include <filesystem>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Maps a file of numbers into memory: what is not looked at is not read. Booleans become u8; unsigned integers of more
/// than a byte are refused, and so are big-endian numbers and Fortran's order. Throws Error{invalid}, one line that
/// names the file.
Array read_npy(const std::filesystem::path& file);

/// Throws Error{resource} if it cannot be written, Error{invalid} for bf16, which NumPy does not have.
void write_npy(const std::filesystem::path& file, const Array& array);

}  // namespace tutti::engine
