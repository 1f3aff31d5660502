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
#include <set>

#include "engine/checkpoint/atomic_file.hpp"
#include "tutti/settings.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are written as they lie in memory");

constexpr std::array<std::string_view, dtype_count> names = {"I8",   "U8",  "I16", "I32", "I64", "F16",
                                                             "BF16", "F32", "F64", "U16", "U32", "U64"};
constexpr std::size_t longest_header = 100 << 20;  // the limit of the format

/// The size in bytes; nullopt if it is negative or overflows.
std::optional<std::size_t> bytes_of(DType dtype, std::span<const std::int64_t> shape) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, std::span<const SavedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t at = 0;
  for (const SavedTensor& tensor : tensors) {
    if (header.contains(tensor.name) || tensor.name == "__metadata__")
      throw Error(Code::invalid, file.string() + ": two tensors are called '" + tensor.name + "'");
    if (bytes_of(tensor.dtype, tensor.shape) != tensor.bytes.size())
      throw Error(Code::invalid, file.string() + ": '" + tensor.name + "' has not the bytes that its shape says");
    header[tensor.name] = {{"dtype", names[static_cast<std::size_t>(tensor.dtype)]},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data starts at a multiple of 8
  const std::uint64_t length = text.size();
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  for (const SavedTensor& tensor : tensors) out.write(tensor.bytes);
  out.commit();
}

void Safetensors::refuse(const std::string& why) const { throw Error(Code::invalid, file_.string() + ": " + why); }

Safetensors::Safetensors(const std::filesystem::path& file) : file_(file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts = {};
  if (descriptor < 0 || fstat(descriptor, &facts) != 0) {
    if (descriptor >= 0) close(descriptor);
    refuse("cannot be read");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* memory = size >= 8 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
  close(descriptor);
  if (memory == MAP_FAILED) refuse(size < 8 ? "is too short for a safetensors file" : "cannot be mapped");
  mapped_ = {static_cast<const std::byte*>(memory), size};
  try {
    std::uint64_t length = 0;
    std::memcpy(&length, memory, sizeof length);
    if (length > longest_header || length > size - 8) refuse("is no safetensors file, or its end is missing");
    read_header({static_cast<const char*>(memory) + 8, length}, mapped_.subspan(8 + length));
  } catch (...) {
    munmap(memory, size);
    throw;
  }
}

Safetensors::~Safetensors() { munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size()); }

void Safetensors::read_header(std::string_view header, std::span<const std::byte> data) {
  const auto json = nlohmann::json::parse(header, nullptr, false);
  if (!json.is_object()) refuse("is no safetensors file: its header is not a JSON object");
  std::size_t covered = 0;
  try {
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto type = entry.at("dtype").get<std::string>();
      const auto known = std::find(names.begin(), names.end(), type);
      if (known == names.end()) refuse("'" + name + "' has the element type " + type + ", which is not supported");
      const auto dtype = static_cast<DType>(known - names.begin());
      auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
      const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::size_t, std::size_t>>();
      if (begin > end || end > data.size()) refuse("'" + name + "' lies beyond its end: a part of the file is missing");
      if (bytes_of(dtype, shape) != end - begin) refuse("'" + name + "' has not the bytes that its shape says");
      covered += end - begin;
      tensors_.push_back({name, dtype, std::move(shape), data.subspan(begin, end - begin)});
    }
  } catch (const nlohmann::json::exception&) {
    refuse("its header is not that of a safetensors file");
  }
  if (covered != data.size()) refuse("its tensors do not cover its data: the file is damaged");
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
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
