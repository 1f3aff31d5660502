// How the rows of HDF5 files are read: one by one, or in parts of files that stay in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/data/blocks.hpp"
#include "engine/data/formats/hdf5_file.hpp"

namespace tutti::engine {

/// The numbers of rows and bytes of a file, over all its datasets.
struct Hdf5Layout {
  std::size_t rows = 0;
  std::size_t row_bytes = 0;
  std::size_t block_rows = 0;  ///< rows that are best read together, because they are compressed; 0: any row by itself
};

/// The layout of a file with these datasets. block_rows is a multiple of the chunk rows of the compressed dataset with
/// the longest rows. A block is at least as large as a chunk of any other dataset, so little is unpacked in vain.
Hdf5Layout layout_of(std::span<const Hdf5Column> columns);

struct Hdf5ReadingOptions {
  std::size_t open = 4;    ///< maximum number of files open at a time; with preload: in memory
  bool preload = false;    ///< whole files are read
  std::size_t memory = 0;  ///< bytes of rows in memory, without preload; two parts are kept in any case
};

struct Hdf5Reading {
  struct Part {
    std::size_t file = 0, begin = 0, rows = 0;
  };
  std::vector<Part> parts = {};  ///< in the order of the samples; empty: rows are read one by one
  std::size_t held = 0;          ///< maximum number of parts in memory
  Blocks blocks = {};            ///< empty: samples can be read in any order
  std::string note = {};         ///< one line for the user: how samples are shuffled, and how to shuffle freely
};

/// Rows are read one by one where that is cheap: if they are not compressed and all files may be open.
Hdf5Reading reading_of(const std::vector<Hdf5Layout>& files, const Hdf5ReadingOptions& options);

}  // namespace tutti::engine
