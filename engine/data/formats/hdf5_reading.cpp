#include "engine/data/formats/hdf5_reading.hpp"

#include <algorithm>

namespace tutti::engine {
namespace {

constexpr std::size_t least_block = std::size_t{256} << 10;  // bytes; smaller blocks take longer to read than to unpack

std::size_t row_bytes_of(const Hdf5Column& column) {
  std::size_t bytes = size_of(column.dtype);
  for (std::size_t d = 1; d < column.shape.size(); ++d) bytes *= static_cast<std::size_t>(column.shape[d]);
  return bytes;
}

std::string in_mebibytes(std::size_t bytes) { return std::to_string((bytes + (1U << 20) - 1) >> 20); }

/// Divides the files into parts; returns the size of the largest in bytes.
std::size_t divide(const std::vector<Hdf5Layout>& files, bool whole, std::vector<Hdf5Reading::Part>& parts) {
  std::size_t largest = 1;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Hdf5Layout& file = files[i];
    const std::size_t chunked =
        file.block_rows > 0 ? file.block_rows : std::max<std::size_t>(least_block / file.row_bytes, 1);
    const std::size_t each = whole ? file.rows : chunked;
    for (std::size_t begin = 0; begin < file.rows; begin += each) {
      parts.push_back({i, begin, std::min(each, file.rows - begin)});
      largest = std::max(largest, parts.back().rows * file.row_bytes);
    }
  }
  return largest;
}

std::string note_of(const Hdf5Reading& reading, const Hdf5ReadingOptions& options, std::size_t total) {
  const std::size_t files = reading.blocks.files.size(), window = reading.blocks.window;
  const std::string of_files = " of the " + std::to_string(files) + " files", together = std::to_string(window);
  if (options.preload)
    return "rows are shuffled over " + together + of_files +
           " at a time, as these are more than open=" + std::to_string(options.open) +
           ": say open=" + std::to_string(files) + " to shuffle freely, which takes " + in_mebibytes(total) + " MiB";
  std::size_t rows = 0;
  for (const Hdf5Reading::Part& part : reading.parts) rows = std::max(rows, part.rows);
  return "rows are shuffled over " + together + (window == 1 ? " block of " : " blocks of ") + std::to_string(rows) +
         " rows" + (files > options.open ? " from " + std::to_string(options.open) + of_files : "") +
         " at a time, as their " + in_mebibytes(total) +
         " MiB are more than memory=" + std::to_string(options.memory >> 20) + ": say memory=" + in_mebibytes(total) +
         " to shuffle freely";
}

}  // namespace

Hdf5Layout layout_of(std::span<const Hdf5Column> columns) {
  Hdf5Layout layout;
  const Hdf5Column* widest = nullptr;
  std::size_t chunks = 0;
  for (const Hdf5Column& each : columns) {
    layout.rows = each.rows();
    layout.row_bytes += row_bytes_of(each);
    if (each.chunk_rows == 0) continue;
    chunks += each.chunk_rows * row_bytes_of(each);
    if (!widest || row_bytes_of(each) > row_bytes_of(*widest)) widest = &each;
  }
  layout.row_bytes = std::max<std::size_t>(layout.row_bytes, 1);
  if (!widest) return layout;
  const std::size_t others = chunks - widest->chunk_rows * row_bytes_of(*widest);
  const std::size_t once = widest->chunk_rows * layout.row_bytes, wanted = std::max(others, least_block);
  layout.block_rows = widest->chunk_rows * ((wanted + once - 1) / once);
  return layout;
}

Hdf5Reading reading_of(const std::vector<Hdf5Layout>& files, const Hdf5ReadingOptions& options) {
  std::size_t total = 0;
  bool compressed = false;
  for (const Hdf5Layout& file : files) {
    total += file.rows * file.row_bytes;
    compressed |= file.block_rows > 0;
  }
  Hdf5Reading reading;
  const bool all_open = files.size() <= options.open, fits = total <= options.memory;
  if (!options.preload && !compressed && all_open) return reading;
  const std::size_t largest = divide(files, options.preload || (fits && !all_open), reading.parts);
  reading.held = options.preload ? options.open
                 : fits          ? std::max<std::size_t>(reading.parts.size(), 1)
                                 : std::max<std::size_t>(options.memory / largest, 2);
  if (reading.held >= reading.parts.size()) return reading;
  // Memory holds two windows: the one that samples are taken from, and the next one, which is read ahead.
  reading.blocks.window = reading.held / 2;
  reading.blocks.open = options.preload ? reading.blocks.window : options.open;
  reading.blocks.files.resize(files.size());
  for (const Hdf5Reading::Part& part : reading.parts) reading.blocks.files[part.file].push_back(part.rows);
  reading.note = note_of(reading, options, total);
  return reading;
}

}  // namespace tutti::engine
