// NPY, NumPy's file format for one array.
#pragma once

#include <filesystem>

#include "engine/data/array.hpp"

namespace tutti::engine {

/// Memory-maps a file of numbers; pages are read on access. Booleans become u8. Big-endian numbers and, for more than
/// one dimension, Fortran order are refused. Throws Error{invalid}, in one line, with the file's name.
Array read_npy(const std::filesystem::path& file);

/// Throws Error{resource} if the file cannot be written, Error{invalid} for bf16, which NumPy does not have.
void write_npy(const std::filesystem::path& file, const Array& array);

}  // namespace tutti::engine
