// data=npy. The header of an NPY file is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2),
// }.
#include "engine/data/formats/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "engine/data/files.hpp"
#include "engine/data/formats/kinds.hpp"
#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_dimensions = 64;  // as in NumPy
constexpr std::string_view magic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr codes[] = {{"|b1", DType::u8},  {"|u1", DType::u8},  {"|i1", DType::i8},  {"<i2", DType::i16},
                           {"<i4", DType::i32}, {"<i8", DType::i64}, {"<u2", DType::u16}, {"<u4", DType::u32},
                           {"<u8", DType::u64}, {"<f2", DType::f16}, {"<f4", DType::f32}, {"<f8", DType::f64}};

/// The text after 'key': up to one of `ends`.
std::string_view value_of(std::string_view header, std::string_view key, std::string_view ends) {
  std::size_t at = header.find("'" + std::string(key) + "':");
  if (at == header.npos) return {};
  at = header.find_first_not_of(" '(", at + key.size() + 3);
  if (at == header.npos) return {};
  return header.substr(at, header.find_first_of(ends, at) - at);
}

std::optional<ArrayShape> parse_shape(std::string_view text) {
  constexpr std::size_t most = std::size_t{1} << 39;  // maximum number of elements; a larger header is corrupt
  ArrayShape shape;
  while (!text.empty()) {
    std::int64_t dim = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || shape.size() >= most_dimensions) return std::nullopt;
    shape.push_back(dim);
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  }
  return checked_product(1, shape, most) ? std::optional(shape) : std::nullopt;
}

/// The text of the header, and the offset of the data.
std::pair<std::string_view, std::size_t> header_of(const MappedFile& mapped, const fs::path& file) {
  const std::string_view all(reinterpret_cast<const char*>(mapped.memory.get()), mapped.bytes);
  if (!all.starts_with(magic) || all.size() < 12) refuse(file, "is no NPY file: save it with numpy.save()");
  const auto byte = [&](std::size_t i) { return std::size_t{static_cast<std::uint8_t>(all[i])}; };
  const bool first = byte(6) == 1;
  const std::size_t length = byte(8) | byte(9) << 8 | (first ? 0 : byte(10) << 16 | byte(11) << 24);
  const std::size_t begin = first ? 10 : 12;
  if (length > all.size() - begin) refuse(file, "ends within its header; the file is truncated, fetch it again");
  return {all.substr(begin, length), begin + length};
}

}  // namespace

Array read_npy(const fs::path& file) {
  const MappedFile mapped = map_file(file);
  const auto [header, begin] = header_of(mapped, file);
  const std::string_view descr = value_of(header, "descr", "'");
  const Descr* code = nullptr;
  for (const Descr& each : codes)
    if (each.text == descr) code = &each;
  if (!code)
    refuse(file, "holds elements of type '" + std::string(descr) +
                     "': expected b1, i1, u1, or little-endian i2, i4, i8, f2, f4 or f8; convert it with astype()");
  const auto shape = parse_shape(value_of(header, "shape", ")"));
  if (!shape) refuse(file, "its header has no shape that can be; the file is corrupt");
  if (value_of(header, "fortran_order", ",}") != "False" && shape->size() > 1)
    refuse(file, "is in Fortran's order: save numpy.ascontiguousarray() of it");
  const std::size_t expected = elements(*shape) * size_of(code->dtype);
  if (mapped.bytes - begin != expected)
    refuse(file, "expected " + std::to_string(expected) + " bytes after the header, found " +
                     std::to_string(mapped.bytes - begin) + "; the file is truncated or corrupt, fetch it again");
  const std::byte* const numbers = mapped.memory.get() + begin;
  if (begin % size_of(code->dtype) != 0)
    return Array::make(code->dtype, *shape, [&](std::byte* into) { std::memcpy(into, numbers, expected); });
  return Array(code->dtype, *shape, std::shared_ptr<const std::byte>(mapped.memory, numbers));
}

void write_npy(const fs::path& file, const Array& array) {
  std::string header = "{'descr': '";
  for (const Descr& each : codes)
    if (each.dtype == array.dtype() && each.text != "|b1") header += each.text;
  if (array.dtype() == DType::bf16) refuse(file, "NumPy has no bf16: convert the array to f32 first");
  header += "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dim : array.shape()) header += std::to_string(dim) + ", ";
  header += "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  const char version_and_length[] = {1, 0, static_cast<char>(header.size() & 255),
                                     static_cast<char>(header.size() >> 8)};
  std::ofstream out(file, std::ios::binary);
  out << magic << std::string_view(version_and_length, 4) << header;
  out.write(reinterpret_cast<const char*>(array.bytes().data()), static_cast<std::streamsize>(array.byte_count()));
  out.close();
  if (!out) throw Error(Code::resource, file.string() + ": cannot be written");
}

DataSplit open_npy(const Source& source) {
  if (source.values.size() == 3) source.refuse("held-out samples without their labels");
  std::vector<Columns> parts;
  for (std::size_t i = 0; i < source.values.size(); i += 2)
    parts.push_back({source.values[i + 1], read_npy(source.values[i]), read_npy(source.values[i + 1])});
  DataSplit split = split_of(source, parts, "input");
  split.description =
      source.text + ": " + summary(split, "samples of " + describe(split.train->get(0)["input"].shape()));
  return split;
}

}  // namespace tutti::engine
