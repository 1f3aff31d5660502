#include "engine/data/formats/idx.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::uint8_t unsigned_byte = 0x08;
constexpr std::size_t largest = std::size_t{1} << 36;  // elements; a larger header is corrupt

std::int64_t big_endian(const std::uint8_t* bytes) {
  return std::int64_t{bytes[0]} << 24 | std::int64_t{bytes[1]} << 16 | std::int64_t{bytes[2]} << 8 | bytes[3];
}

ArrayShape read_header(GzipReader& in, const std::filesystem::path& file, std::size_t rank) {
  std::vector<std::uint8_t> header(4 + 4 * rank);
  const std::size_t got = in.read(header.data(), header.size());
  if (got < header.size())
    refuse(file, "expected an IDX header of " + std::to_string(header.size()) + " bytes, found " + std::to_string(got));
  if (header[0] != 0 || header[1] != 0 || header[2] != unsigned_byte || header[3] != rank) {
    char text[96];
    std::snprintf(text, sizeof text,
                  "expected an IDX file starting with bytes 00 00 08 %02zx, found %02x %02x %02x %02x", rank, header[0],
                  header[1], header[2], header[3]);
    refuse(file, text);
  }
  ArrayShape shape;
  for (std::size_t d = 0; d < rank; ++d) shape.push_back(big_endian(&header[4 + 4 * d]));
  if (!checked_product(1, shape, largest))
    refuse(file, "its header asks for an impossible size, " + describe(shape) + "; the file is corrupt");
  return shape;
}

}  // namespace

Array read_idx(const std::filesystem::path& file, std::size_t rank, const ReadLimits& limits) {
  GzipReader in(file, limits);
  const ArrayShape shape = read_header(in, file, rank);
  return Array(in.read_exactly(elements(shape), true), shape);
}

void write_idx(const std::filesystem::path& file, const Array& array) {
  std::vector<std::uint8_t> header{0, 0, unsigned_byte, static_cast<std::uint8_t>(array.shape().size())};
  for (const std::int64_t dim : array.shape())
    for (int bits = 24; bits >= 0; bits -= 8) header.push_back(static_cast<std::uint8_t>(dim >> bits));
  const auto bytes = array.as<std::uint8_t>();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(file.c_str(), "wbe"), std::fclose);
  if (!out || std::fwrite(header.data(), 1, header.size(), out.get()) != header.size() ||
      std::fwrite(bytes.data(), 1, bytes.size(), out.get()) != bytes.size() || std::fflush(out.get()) != 0)
    throw Error(Code::resource, file.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace tutti::engine
