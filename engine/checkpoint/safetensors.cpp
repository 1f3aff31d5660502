#include "engine/checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/config/documents.hpp"
#include "transports/core/checked.hpp"
#include "transports/core/descriptor.hpp"
#include "tutti/settings.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors are written as they lie in memory");

constexpr std::array<std::string_view, dtype_count> names = {"I8",   "U8",  "I16", "I32", "I64", "F16",
                                                             "BF16", "F32", "F64", "U16", "U32", "U64"};
constexpr std::size_t longest_header = 100 << 20;  // the limit of the format

constexpr DocumentLimits header_limits{.bytes = longest_header, .nodes = 2'000'000, .depth = 8};

/// Reads a list of whole numbers from 0 up, as shapes and offsets are; nullopt for anything else.
std::optional<std::vector<std::int64_t>> whole_numbers(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<std::int64_t> found;
  for (const auto& each : json) {
    if (!each.is_number_unsigned() || each.get<std::uint64_t>() > PTRDIFF_MAX) return std::nullopt;
    found.push_back(each.get<std::int64_t>());
  }
  return found;
}

constexpr const char* sums_key = "crc32";  // key in the metadata; value: JSON, the checksum of each tensor by name

}  // namespace

std::string_view safetensors_name(DType dtype) noexcept { return names[static_cast<std::size_t>(dtype)]; }

std::optional<DType> safetensors_dtype(std::string_view name) noexcept {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<DType>(found - names.begin()));
}

std::string safetensors_header(const std::filesystem::path& file, std::span<const TensorForm> tensors,
                               const std::map<std::string, std::string>& metadata,
                               std::span<const std::uint32_t> sums) {
  nlohmann::ordered_json header = {{"__metadata__", metadata}}, listed = nlohmann::ordered_json::object();
  std::size_t at = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, dtype, shape] = tensors[i];
    if (header.contains(name)) throw Error(Code::invalid, file.string() + ": two tensors are called '" + name + "'");
    const std::optional<std::size_t> bytes = checked_product(size_of(dtype), shape, PTRDIFF_MAX - at);
    if (!bytes) throw Error(Code::invalid, file.string() + ": '" + name + "' has more bytes than a file holds");
    header[name] = {{"dtype", safetensors_name(dtype)}, {"shape", shape}, {"data_offsets", {at, at + *bytes}}};
    if (!sums.empty()) listed[name] = sums[i];
    at += *bytes;
  }
  if (!listed.empty() || tensors.empty()) header["__metadata__"][sums_key] = listed.dump();
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data starts at a multiple of 8
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

FileSum write_safetensors(const std::filesystem::path& file, std::span<const SavedTensor> tensors,
                          const std::map<std::string, std::string>& metadata) {
  std::vector<TensorForm> forms;
  std::vector<std::uint32_t> sums;
  for (const SavedTensor& tensor : tensors) {
    if (checked_product(size_of(tensor.dtype), tensor.shape) != tensor.bytes.size())
      throw Error(Code::invalid, file.string() + ": '" + tensor.name + "' has not the bytes that its shape says");
    forms.push_back({tensor.name, tensor.dtype, tensor.shape});
    sums.push_back(crc32_of(tensor.bytes));
  }
  const std::string header = safetensors_header(file, forms, metadata, sums);
  AtomicFile out(file);
  out.write(header);
  for (const SavedTensor& tensor : tensors) out.write(tensor.bytes);
  return out.commit();
}

void Safetensors::refuse(const std::string& why) const { throw Error(Code::invalid, file_.string() + ": " + why); }

Safetensors::Safetensors(const std::filesystem::path& file) : file_(file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts = {};
  if (!descriptor || ::fstat(descriptor.fd(), &facts) != 0)
    refuse(std::string("cannot be read: ") + std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) refuse("cannot be read: it is no regular file");
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size < 8) refuse("is too short for a safetensors file");
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.fd(), 0);
  if (memory == MAP_FAILED) refuse(std::string("cannot be mapped: ") + std::strerror(errno));
  mapped_ = {static_cast<const std::byte*>(memory), size};
  try {
    std::uint64_t length = 0;
    std::memcpy(&length, memory, sizeof length);
    if (length > longest_header || length > size - 8) refuse("is no safetensors file, or its end is missing");
    read_header({static_cast<const char*>(memory) + 8, length}, mapped_.subspan(8 + length));
  } catch (...) {
    ::munmap(memory, size);
    throw;
  }
}

Safetensors::~Safetensors() { ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size()); }

void Safetensors::read_header(std::string_view header, std::span<const std::byte> data) {
  const Json json = parse_json(header, file_.string(), header_limits);
  if (!json.is_object()) refuse("is no safetensors file: its header is not a JSON object");
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      read_metadata(entry);
      continue;
    }
    const auto shape = whole_numbers(entry.is_object() ? entry.value("shape", Json()) : Json());
    const auto offsets = whole_numbers(entry.is_object() ? entry.value("data_offsets", Json()) : Json());
    const Json type = entry.is_object() ? entry.value("dtype", Json()) : Json();
    if (!shape || !offsets || offsets->size() != 2 || !type.is_string())
      refuse("'" + name + "' has not a type, a shape and two offsets, which are whole numbers");
    const std::optional<DType> dtype = safetensors_dtype(type.get<std::string>());
    if (!dtype) refuse("'" + name + "' has the element type " + type.get<std::string>() + ", which is not supported");
    const auto begin = static_cast<std::size_t>(offsets->front()), end = static_cast<std::size_t>(offsets->back());
    if (begin > end || end > data.size()) refuse("'" + name + "' lies beyond its end: a part of the file is missing");
    if (checked_product(size_of(*dtype), *shape) != end - begin)
      refuse("'" + name + "' has not the bytes that its shape says");
    tensors_.push_back({name, *dtype, *shape, data.subspan(begin, end - begin)});
  }
  // The tensors must cover the data from its beginning to its end, one after the other.
  std::ranges::sort(tensors_, {},
                    [](const SavedTensor& each) { return std::pair(each.bytes.data(), each.bytes.size()); });
  const std::byte* at = data.data();
  for (const SavedTensor& each : tensors_) {
    if (each.bytes.data() < at) refuse("'" + each.name + "' overlaps another tensor");
    if (each.bytes.data() > at) refuse("before '" + each.name + "' are bytes of no tensor");
    at += each.bytes.size();
  }
  if (at != data.data() + data.size()) refuse("its tensors do not cover its data: the file is damaged");
  std::ranges::sort(tensors_, {}, &SavedTensor::name);
}

void Safetensors::read_metadata(const Json& entry) {
  if (!entry.is_object()) refuse("its metadata are no names with texts");
  for (const auto& [name, value] : entry.items()) {
    if (!value.is_string()) refuse("its metadata '" + name + "' is no text");
    if (name != sums_key) {
      metadata_[name] = value.get<std::string>();
      continue;
    }
    const Json sums = parse_json(value.get<std::string>(), file_.string() + ": checksums", header_limits);
    for (const auto& [tensor, sum] : sums.items()) {
      if (!sum.is_number_unsigned()) refuse("the checksum of '" + tensor + "' is no number");
      sums_[tensor] = static_cast<std::uint32_t>(sum.get<std::uint64_t>());
    }
  }
}

void Safetensors::verify(const SavedTensor& tensor) const {
  const auto sum = sums_.find(tensor.name);
  if (sum != sums_.end() && sum->second != crc32_of(tensor.bytes))
    refuse("'" + tensor.name + "' is damaged: its checksum is wrong");
}

const SavedTensor& Safetensors::at(std::string_view name) const {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const SavedTensor& each, std::string_view wanted) { return each.name < wanted; });
  if (found != tensors_.end() && found->name == name) return *found;
  std::vector<std::string_view> known;
  for (const SavedTensor& each : tensors_) known.push_back(each.name);
  const std::string_view near = nearest(name, known);
  refuse("has no tensor '" + std::string(name) + "'" +
         (near.empty() ? std::string() : "; the nearest name is '" + std::string(near) + "'"));
}

}  // namespace tutti::engine
